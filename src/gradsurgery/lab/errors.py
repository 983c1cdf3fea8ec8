"""Errors that the command line reports in one sentence, without a traceback."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A mistake in what the user asked for: what was expected and what was given. Exit code 2 on the command line."""


class FailedRunsError(Exception):
    """Some runs of a sweep raised an error. Exit code 1 on the command line."""


def unknown(kind: str, given: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist; it suggests the closest name that does."""
    known = list(known)
    closest = get_close_matches(given, known, n=1)
    hint = f"did you mean {closest[0]}?" if closest else f"there are {', '.join(known)}"
    return UserError(f"there is no {kind} {given!r}: {hint}")
