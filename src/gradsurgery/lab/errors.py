"""Mistakes that the lab tells its user of in one sentence."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Something that was asked for cannot be: what was wanted, and what came. Exit code 2 on the command line."""


def unknown(kind: str, given: str, known: Iterable[str]) -> UserError:
    """The sentence for a name that does not exist, with the nearest that does."""
    known = list(known)
    nearest = get_close_matches(given, known, n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(known)}"
    return UserError(f"there is no {kind} {given!r}: {hint}")
