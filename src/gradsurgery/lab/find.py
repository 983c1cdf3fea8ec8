"""Find problems and methods by name: installed ones, or ``file.py:name`` and ``package.module:name``.

Packages offer problems by entry points in the group ``gradsurgery.problems``, the paper's problems among them.
"""

import importlib
import importlib.util
import sys
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from gradsurgery.lab.errors import UserError, require_extra, unknown
from gradsurgery.lab.method import register_method
from gradsurgery.lab.problem import Problem
from gradsurgery.method import Method

T = TypeVar("T")


@cache
def installed_problems() -> dict[str, EntryPoint]:
    """The problems that installed packages offer, by name."""
    return {point.name: point for point in entry_points(group="gradsurgery.problems")}


def find_problem(name: str) -> Problem:
    """Return a problem by its name, or by ``file.py:name`` or ``package.module:name``."""
    if is_reference(name):
        return load(name, Problem, "a problem")
    installed = installed_problems()
    if name not in installed:
        raise unknown("problem", name, installed)
    return load(installed[name].value, Problem, "a problem")


def find_installed(name: str) -> Problem | None:
    """The installed problem of this name; None if there is none, or if its package cannot be imported."""
    try:
        return find_problem(name) if name in installed_problems() else None
    except UserError:
        return None


def find_method(method: str | type[Method]) -> str:
    """The name of a method; your own, given as a class or as ``file.py:name``, is registered first."""
    if isinstance(method, str) and is_reference(method):
        method = load(method, type, "a method, which is a class")
    return method if isinstance(method, str) else register_method(method)


def check_name(problem: Problem) -> None:
    """Raise if an installed problem has the same name: reports by that name would look for its runs."""
    if problem.name not in installed_problems():
        return
    installed = find_problem(problem.name)
    if installed.train.__code__.co_filename != problem.train.__code__.co_filename:
        raise UserError(f"{problem.name} is an installed problem: give yours another name")


def is_reference(text: str) -> bool:
    """True for ``file.py:name`` and ``package.module:name``; False for a plain name."""
    return ":" in text or text.endswith(".py")


def load(reference: str, kind: type[T], description: str) -> T:
    """Import the object that a reference names.

    Args:
        reference: ``file.py:name`` or ``package.module:name``.
        kind: the class that the object must be an instance of.
        description: of such an object, for error messages: "a problem".
    """
    where, _, name = reference.rpartition(":")
    if not where or not name:
        raise UserError(f"{description} must be named as file.py:name or package.module:name; got {reference!r}")
    module = _load_file(Path(where)) if where.endswith(".py") else _load_module(where)
    if not hasattr(module, name):
        candidates = [candidate for candidate, value in vars(module).items() if isinstance(value, kind)]
        if not candidates:
            raise UserError(f"{reference} must be {description}, but {where} has none")
        raise unknown("object", name, candidates, where=f"in {where}")
    loaded = getattr(module, name)
    if not isinstance(loaded, kind):
        raise UserError(f"{reference} must be {description}; got {loaded!r:.60}")
    return loaded


def _load_file(path: Path) -> ModuleType:
    """Import a file as Python runs a script: with its folder on the path, so that it can import its neighbours."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    name = path.stem.replace(".", "_")  # a dot would make it a module of a package
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path.resolve()):
        return loaded
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"importing {path} failed with {type(error).__name__}: {error}") from error
    with require_extra():
        import cloudpickle
    cloudpickle.register_pickle_by_value(module)  # workers cannot import it by name
    return module


def _load_module(name: str) -> ModuleType:
    if "" not in sys.path:
        sys.path.insert(0, "")  # as python -m does
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UserError(f"there is no module {name}") from error
        if "pip install" in str(error):  # a package says which extra it needs
            raise UserError(str(error)) from error
        raise UserError(f"importing {name} failed with {type(error).__name__}: {error}") from error
    except Exception as error:
        raise UserError(f"importing {name} failed with {type(error).__name__}: {error}") from error
