"""A fingerprint of the user's code: it changes when the results of a training function may.

For code in files, it covers the module of the function and the modules beside it that these import, inside functions
too. What cannot change a run is left out: comments, docstrings, other problems of the same file that the code does not
name, the arguments of ``@lab.problem``, and what a script does once it sweeps. A function or class that another
function makes is known by its closure, defaults and class attributes, too.

For a notebook it covers the bytecode of the function, its closure and defaults, and the global names that it uses:
plain values, functions, classes with their bases and attributes, objects of the user's classes, and local files.

Everywhere a ``functools.partial`` counts with its arguments, a bound method with the attributes of its object, and a
wrapper with what it wraps. Values count only if they are plain, or are containers of such: anything else may print its
address.

Installed packages have no fingerprint: their versions are recorded.
"""

import ast
import functools
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias

from gradsurgery.lab.local_modules import installation_folders
from gradsurgery.lab.problem import Problem

_PLAIN = (bool, int, float, str, bytes, type(None))
_NEUTRAL = {"__doc__", "__module__", "__firstlineno__", "__slotnames__", "__static_attributes__"}
"""Attributes of a class that Python sets, and that cannot change a run."""

_Seen: TypeAlias = dict[object, object]
"""What is in the fingerprint already: objects by id, kept alive so that no id is used twice, and files."""


def fingerprint(*items: Callable[..., Any]) -> str:
    """The fingerprint of functions and classes; empty if all are of installed packages."""
    parts = [text for item in items for text in _texts(item, {})]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16] if parts else ""


def plain_function(item: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside a ``functools.partial`` or a wrapper; a class as it is."""
    return plain_function(item.func) if isinstance(item, functools.partial) else inspect.unwrap(item)


def source_file(item: Any) -> Path | None:
    """The file of a function, a class or a module; None for one of a notebook."""
    functions = [getattr(item, "__func__", item)]
    if isinstance(item, type):  # its own methods: dataclasses and enums add some
        functions = [inspect.unwrap(each) for each in vars(item).values() if isinstance(each, FunctionType)]
        functions = [each for each in functions if each.__module__ == item.__module__]
    files = [each.__code__.co_filename for each in functions if isinstance(each, FunctionType)]
    if isinstance(item, type) and item.__module__ != "__main__":  # it may have no methods
        files.append(getattr(sys.modules.get(item.__module__), "__file__", None) or "")
    if isinstance(item, ModuleType):
        files.append(getattr(item, "__file__", None) or "")
    return next((Path(file).resolve() for file in files if file.endswith(".py") and Path(file).is_file()), None)


def is_installed(item: Any) -> bool:
    """True for code of this package, of Python, and of any other that pip has installed (but not as editable)."""
    file, module = source_file(item), getattr(item, "__module__", item.__name__) or ""
    if module.partition(".")[0] == "gradsurgery":
        return True
    if file is None:  # of a notebook, or built in
        return not isinstance(item, FunctionType | MethodType) and module != "__main__" and module in sys.modules
    return any(folder in file.parents for folder in installation_folders())


def _texts(value: Any, seen: _Seen) -> Iterator[str]:
    """What a value contributes: nothing if it is neither plain nor the user's."""
    if isinstance(value, _PLAIN):
        yield repr(value)
    elif isinstance(value, set | frozenset):  # in no order, so that no element may depend on those before
        yield from ("set", *sorted("\n".join(_texts(each, dict(seen))) for each in value), "end")
    elif id(value) in seen:
        yield "again"
    elif isinstance(value, dict | list | tuple):
        seen[id(value)] = value
        yield next(kind.__name__ for kind in (dict, list, tuple) if isinstance(value, kind))
        for key, each in list(value.items() if isinstance(value, dict) else enumerate(value)):
            if texts := list(_texts(each, seen)):
                yield from (*_texts(key, seen), *texts)
        yield "end"
    elif isinstance(value, FunctionType | type | ModuleType):
        seen[id(value)] = value
        yield from _code_of(value, seen)
    else:
        for part in _parts(value):
            seen[id(value)] = value
            yield from _texts(part, seen)


def _parts(value: Any) -> list[Any]:
    """What an object is made of, if it is one that wraps a function or an object of a user's class."""
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.items()]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, property):
        return [each for each in (value.fget, value.fset, value.fdel) if each]
    if isinstance(value, functools.cached_property):
        return [value.func]
    if isinstance(value, Problem):
        return [value.train]
    if is_installed(type(value)):  # functools.cache, staticmethod, jax.jit
        return _wrapped(value)
    return [type(value), object.__getstate__(value)]  # its attributes, in slots too


def _wrapped(value: Any) -> list[Any]:
    inner = inspect.getattr_static(value, "__wrapped__", None)
    return [] if inner is None else [value.__wrapped__]


def _code_of(item: Any, seen: _Seen) -> Iterator[str]:
    """The code of a function, class or module, and the values that it was made with."""
    values = _wrapped(item)
    file = source_file(item)
    if not is_installed(item):
        if file is not None and (file, item.__name__) not in seen:
            seen[file, item.__name__] = item
            yield from _file_texts(file, item)
        if isinstance(item, FunctionType):
            values += [cell.cell_contents for cell in item.__closure__ or () if cell != CellType()]
            if file is None or "<locals>" in item.__code__.co_qualname:
                values += [item.__defaults__, item.__kwdefaults__]
            if file is None:
                names = list(_code_texts(item.__code__))
                yield from names
                values += [item.__globals__[name] for name in names if name in item.__globals__]
        elif isinstance(item, type) and (file is None or "<locals>" in item.__qualname__):
            attributes = {name: each for name, each in vars(item).items() if name not in _NEUTRAL}
            values += [*item.__bases__, attributes]
    for value in values:
        yield from _texts(value, seen)


def _file_texts(file: Path, item: Any) -> list[str]:
    """The texts of the file that defines an item, and of those that it imports."""
    is_module = isinstance(item, ModuleType)
    module = item if is_module else sys.modules.get(item.__module__)
    package = getattr(module, "__package__", None) or ""
    root = file.parents[len(package.split("."))] if package else file.parent
    texts: dict[Path, str] = {}
    pending = [file]
    while pending:
        path = pending.pop()
        if path not in texts:
            tree = _prune(ast.parse(path.read_bytes()), item.__name__ if path == file and not is_module else None)
            texts[path] = ast.unparse(tree)
            pending += _imported_files(tree, path, root)
    return [texts[path] for path in sorted(texts)]


def _prune(tree: ast.Module, name: str | None) -> ast.Module:
    """Remove what cannot change a run of the function of this name; None for a module that others import."""
    body = _until_sweep(tree.body)
    kept = [each for each in body if not (_is_main_block(each) or (name and _is_problem(each)))]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = [each for each in node.decorator_list if not _calls_problem(each)]
        if isinstance(inner := getattr(node, "body", None), list):
            node.body = [each for each in inner if not _is_text(each)] or [ast.Pass()]  # type: ignore[attr-defined]
    while name and (named := [each for each in body if each not in kept and _defined(each) & {name, *_used(kept)}]):
        kept += named
    tree.body = [each for each in body if each in kept and not _is_text(each)] or [ast.Pass()]
    return tree


def _until_sweep(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements before a script sweeps; of a block that sweeps, those before it does, if they define functions."""
    kept: list[ast.stmt] = []
    for statement in body:
        sweeps = _sweeps(statement)
        if sweeps or _is_main_block(statement):
            inner = getattr(statement, "body", None)
            statement.body = _until_sweep(inner if isinstance(inner, list) else [])  # type: ignore[attr-defined]
            if _is_main_block(statement) or any(isinstance(each, ast.FunctionDef) for each in ast.walk(statement)):
                kept.append(statement)
        else:
            kept.append(statement)
        if sweeps and not _is_main_block(statement):
            break
    return kept


def _is_main_block(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__main__" in ast.unparse(statement.test)


def _is_problem(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef) and any(map(_calls_problem, statement.decorator_list))


def _calls_problem(decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else None
    return "problem" in (getattr(function, "id", None), getattr(function, "attr", None))


def _sweeps(statement: ast.stmt) -> bool:
    """True if a statement outside functions calls ``sweep(...)`` or ``lab.sweep(...)``."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return False
    calls = [ast.unparse(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return any(call == "sweep" or f".{call}".endswith(".lab.sweep") for call in calls)


def _defined(statement: ast.stmt) -> set[str]:
    """The global names that a statement defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    inner = {name for each in getattr(statement, "body", []) for name in _defined(each)}
    return inner | {each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and _is_stored(each)}


def _used(statements: list[ast.stmt]) -> set[str]:
    """The global names that statements use, as far as no variable of the same function has the name."""
    used: set[str] = set()
    for statement in statements:
        names = [each for each in ast.walk(statement) if isinstance(each, ast.Name)]
        local: set[str] = set()
        if isinstance(statement, ast.FunctionDef):
            local = {each.id for each in names if _is_stored(each)}
            local |= {each.arg for each in ast.walk(statement) if isinstance(each, ast.arg)}
        used |= {each.id for each in names} - local
    return used


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _imported_files(tree: ast.Module, path: Path, root: Path) -> Iterator[Path]:
    """The files below a root that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names, base = [alias.name for alias in node.names], root
        elif isinstance(node, ast.ImportFrom):
            names = [".".join(filter(None, [node.module, alias.name])) for alias in node.names]
            base = path.parents[node.level - 1] if node.level else root
        else:
            continue
        for name in names:
            parts = name.split(".")
            for length in range(len(parts) + 1):  # packages on the way are imported too
                place = base.joinpath(*parts[:length])
                candidates = (place.with_name(f"{place.name}.py"), place / "__init__.py")
                yield from (each for each in candidates if each.is_file() and root in each.parents)


def _code_texts(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_texts(constant)
        else:
            yield repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)
