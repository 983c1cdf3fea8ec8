"""How numbers and runs are written, the same in the terminal, on the page and in the docs."""

import math
from collections.abc import Mapping

from gradsurgery.lab.lam import Lam, lam_name, lam_number
from gradsurgery.lab.run import RunSpec, Setting


def number(value: float, digits: int = 3) -> str:
    """A number for people: three significant digits, no trailing zeros, a power of ten where it is far from 1.

    Example:
        >>> [number(value) for value in (0.1, 1234.5, -0.00031623, 1e-4, float("nan"))]
        ['0.1', '1,234', '−3.16×10⁻⁴', '10⁻⁴', '–']
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    mantissa, exponent = f"{abs(value):.{digits - 1}e}".split("e")
    power = int(exponent)
    near = -3 <= power <= 4
    text = f"{abs(value):,.{max(digits - 1 - power, 0)}f}" if near else mantissa
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    if not near:
        text = power_of_ten(power) if text == "1" else f"{text}×{power_of_ten(power)}"
    return text if value > 0 else f"−{text}"


def power_of_ten(power: int) -> str:
    """An integer power of ten, written with superscript characters.

    Example:
        >>> [power_of_ten(power) for power in (-4, 0, 1)]
        ['10⁻⁴', '1', '10']
    """
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return {0: "1", 1: "10"}.get(power, "10" + raised)


def hyperparameters(lam: Lam | None, rho: float | None, settings: Mapping[str, Setting] | None = None) -> list[str]:
    """λ and ρ with their values, for a method that has them; then settings.

    Example:
        >>> hyperparameters(0.3, 0.01)
        ['λ = 0.3', 'ρ = 0.01']
    """
    weight = [] if lam is None else [f"{lam_name(lam)} = {number(lam_number(lam))}"]
    average = [] if rho is None else [f"ρ = {number(rho)}"]
    return [*weight, *average, *(f"{name} = {write_setting(value)}" for name, value in (settings or {}).items())]


def write_setting(value: Setting) -> str:
    """The value of a setting, as ``--set`` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def describe_run(spec: RunSpec) -> str:
    """A run in a few words.

    Example:
        >>> describe_run(RunSpec("lipschitz", "demo", "bloop", lam=0.1, rho=0.01, seed=2))
        'bloop, λ = 0.1, ρ = 0.01, seed 2'
    """
    return ", ".join([spec.method, *hyperparameters(spec.lam, spec.rho), f"seed {spec.seed}"])
