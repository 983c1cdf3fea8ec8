"""Errors that the command line reports in one sentence, without a traceback."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class UserError(Exception):
    """A mistake of the user. The message says what was expected and what was given. Exit code 2 on the command line."""


class FailedRunsError(Exception):
    """Some runs of a sweep raised an error. Exit code 1 on the command line."""


def unknown(kind: str, name: str, known: Iterable[str], where: str = "") -> UserError:
    """The error for a name that does not exist; it suggests the closest known name, or lists all of them.

    Example:
        >>> unknown("setting", "epoch", ["epochs", "batch"], where="of lipschitz")
        UserError("there is no setting 'epoch' of lipschitz: did you mean epochs?")
    """
    known = list(known)
    closest = get_close_matches(name, known, n=1)
    choices = f"choose from {', '.join(known)}" if known else "it has none"
    hint = f"did you mean {closest[0]}?" if closest else choices
    return UserError(" ".join(filter(None, ["there is no", kind, repr(name), where])) + f": {hint}")


@contextmanager
def require_extra() -> Iterator[None]:
    """Explain how to get a library of the extra ``lab`` that the block cannot import."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = str(error.name).partition(".")[0]
        if error.name is None or name == "gradsurgery":
            raise
        raise ModuleNotFoundError(f'gradsurgery.lab needs {name}: pip install "gradsurgery[lab]"', name=name) from error
