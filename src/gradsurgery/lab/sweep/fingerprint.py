"""A fingerprint of the user's code: it changes when the results of a training function may.

For code in files, it covers the module of the function and the modules beside it that these import, inside functions
too. What cannot change a run is left out: comments, docstrings, other problems of the same file, the arguments of
``@lab.problem``, and what a script does once it sweeps. For a notebook it covers the bytecode of the function, of the
functions and classes that it uses, and plain global values.

Installed packages have no fingerprint: their versions are recorded.
"""

import ast
import functools
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from gradsurgery.lab.local_modules import installation_folders

_PLAIN = (bool, int, float, str, bytes, tuple, type(None))


def fingerprint(*items: Callable[..., Any]) -> str:
    """The fingerprint of functions and classes; empty if all are of installed packages."""
    parts = [text for item in items for text in _texts(plain_function(item))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16] if parts else ""


def plain_function(item: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside a ``functools.partial`` or a wrapper; a class as it is."""
    return plain_function(item.func) if isinstance(item, functools.partial) else inspect.unwrap(item)


def source_file(item: Callable[..., Any]) -> Path | None:
    """The file of a function or a class; None for one of a notebook."""
    functions = vars(item).values() if isinstance(item, type) else [item]
    files = [Path(each.__code__.co_filename) for each in functions if isinstance(each, FunctionType)]
    return next((file.resolve() for file in files if file.is_file()), None)


def is_installed(item: Callable[..., Any]) -> bool:
    """True for code of this package, and of any other that pip has installed (but not as editable)."""
    file = source_file(item)
    is_ours = item.__module__.partition(".")[0] == "gradsurgery"
    return is_ours or (file is not None and any(folder in file.parents for folder in installation_folders()))


def _texts(item: Callable[..., Any]) -> list[str]:
    file = source_file(item)
    if is_installed(item):
        return []
    if file is None:
        return list(_notebook_texts(item, set()))
    package = getattr(sys.modules.get(item.__module__), "__package__", None) or ""
    root = file.parents[len(package.split("."))] if package else file.parent
    texts: dict[Path, str] = {}
    pending = [file]
    while pending:
        path = pending.pop()
        if path not in texts:
            tree = _prune(ast.parse(path.read_bytes()), item.__name__ if path == file else "")
            texts[path] = ast.unparse(tree)
            pending += _imported_files(tree, path, root)
    return [texts[path] for path in sorted(texts)]


def _prune(tree: ast.Module, function: str) -> ast.Module:
    """Remove what cannot change a run of this function."""
    kept: list[ast.stmt] = []
    for statement in tree.body:
        if isinstance(statement, ast.If) and "__main__" in ast.unparse(statement.test):
            continue
        if _calls(statement, "sweep"):
            break
        if isinstance(statement, ast.FunctionDef) and any(_calls(each, "problem") for each in statement.decorator_list):
            if statement.name != function:
                continue
            statement.decorator_list = []
        kept.append(statement)
    tree.body = kept
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [each for each in body if not _is_text(each)] or [ast.Pass()]  # type: ignore[attr-defined]
    return tree


def _calls(statement: ast.AST, name: str) -> bool:
    """True if a statement outside functions calls ``name(...)`` or ``module.name(...)``."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return False
    functions = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return any(name in (getattr(each, "id", None), getattr(each, "attr", None)) for each in functions)


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


def _notebook_texts(item: Any, seen: set[int]) -> Iterator[str]:
    """The code of a function or class without a file, and of those that it uses."""
    if id(item) in seen:
        return
    seen.add(id(item))
    for function in vars(item).values() if isinstance(item, type) else [item]:
        if not isinstance(function, FunctionType):
            continue
        names = list(_code_texts(function.__code__))
        yield from names
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        for value in [*cells, *(function.__globals__[name] for name in names if name in function.__globals__)]:
            if isinstance(value, _PLAIN):
                yield repr(value)
            elif isinstance(value, FunctionType | type) and source_file(value) is None and not is_installed(value):
                yield from _notebook_texts(value, seen)


def _code_texts(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_texts(constant)
        else:
            yield repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)
