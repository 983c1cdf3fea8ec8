"""Arithmetic on numbers, written down as a Python function.

Formulas of ours are made of operators and do not branch, so one run on symbols tells all that there is to compute. As a
function of its own that takes a small part of the time of such a run, with its vectors, inner products and records:

    >>> from gradsurgery.scalar import ratio
    >>> tape = Tape(dtype=None)
    >>> a, b = tape.symbol("a"), tape.symbol("b")
    >>> print(tape.source([ratio(a, b), a * 1]))
    def written(a, b):
        v0 = b != 0
        v1 = a * v0
        v2 = b == 0
        v3 = b + v2
        v4 = v1 / v3
        return v4, a
    >>> tape.function([ratio(a, b), a * 1])(3.0, 2.0)
    (1.5, 3.0)
"""

from collections.abc import Callable, Sequence
from typing import Any

from gradsurgery.scalar import Scalar
from gradsurgery.vector import Vector

IDENTITY = {"*": 1, "+": 0}
"""What leaves the other number as it is."""


class Tape:
    """What has been computed so far, line by line, from symbols and Python's own numbers.

    Args:
        dtype: the type that symbols show to those who ask.
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self._arguments: list[str] = []
        self._lines: dict[str, str] = {}

    def symbol(self, name: str) -> "Symbol":
        """An argument of the function."""
        self._arguments.append(name)
        return Symbol(name, self)

    def write(self, left: Scalar, operator: str, right: Scalar) -> Scalar:
        """The symbol of what an operator gives; the same is not computed twice, nor a sum with 0, a product with 1."""
        for one, other in ((left, right), (right, left)):
            if isinstance(one, int | float) and one == IDENTITY.get(operator):
                return other
        expression = f"{self._name(left)} {operator} {self._name(right)}"
        return Symbol(self._lines.setdefault(expression, f"v{len(self._lines)}"), self)

    def source(self, results: Sequence[Scalar]) -> str:
        """The function that returns these results."""
        lines = [f"{name} = {expression}" for expression, name in self._lines.items()]
        lines.append(f"return {', '.join(map(self._name, results))}")
        return "\n    ".join([f"def written({', '.join(self._arguments)}):", *lines])

    def function(self, results: Sequence[Scalar]) -> Callable[..., tuple[Scalar, ...]]:
        """The function, ready to be called."""
        names: dict[str, Any] = {}
        exec(self.source(results), names)  # nothing but names and numbers of our own
        written: Callable[..., tuple[Scalar, ...]] = names["written"]
        return written

    def _name(self, number: Scalar) -> str:
        if isinstance(number, Symbol):
            return number.name
        return repr(number) if number >= 0 else f"({number!r})"


class Symbol:
    """A number that is known when the function is called; it has operators, and nothing else that numbers have."""

    def __init__(self, name: str, tape: Tape) -> None:
        self.name, self._tape = name, tape

    @property
    def dtype(self) -> Any:
        """The type of the number."""
        return self._tape.dtype

    def __bool__(self) -> bool:
        raise TypeError("a formula does not branch, as its numbers may be traced or on a device")

    def __neg__(self) -> Scalar:
        return self._tape.write(-1, "*", self)


def _operator(sign: str, *, swapped: bool = False) -> Callable[[Symbol, Scalar], Scalar]:
    """An operator with a symbol on its left, or swapped on its right."""

    def apply(symbol: Symbol, other: Scalar) -> Scalar:
        if isinstance(other, Vector):  # which knows what to do with a number
            return NotImplemented
        return symbol._tape.write(other, sign, symbol) if swapped else symbol._tape.write(symbol, sign, other)

    return apply


for _sign, _name in {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "**": "pow"}.items():
    setattr(Symbol, f"__{_name}__", _operator(_sign))
    setattr(Symbol, f"__r{_name}__", _operator(_sign, swapped=True))
for _sign, _name in {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}.items():
    setattr(Symbol, f"__{_name}__", _operator(_sign))
