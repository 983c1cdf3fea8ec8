"""The command line ``gradsurgery``: it parses text and calls ``lab.sweep``, ``lab.report`` and ``lab.recommend``.

``main`` reports errors, ``parser`` has the commands and their options, ``commands`` and ``keeping`` execute them, and
``listing`` prints problems. What takes long to import is imported inside the commands that need it, so that help,
``list`` and mistakes answer at once.
"""

import sys
from collections.abc import Sequence
from io import TextIOWrapper

from gradsurgery.lab.errors import FailedRunsError, UserError, require_extra


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 2 for a mistake of the user, 1 for any other failure."""
    argv = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal without λ shows a question mark
            stream.reconfigure(errors="replace")
    try:
        with require_extra():
            from rich.console import Console

            from gradsurgery.lab.cli.parser import make_parser
            from gradsurgery.lab.store import StoreError
    except ModuleNotFoundError as error:
        print(f"gradsurgery: {error}", file=sys.stderr)
        return 2
    # text from users and stores is printed as it is, never parsed as markup
    console = Console(markup=False, highlight=False, emoji=False)
    errors = Console(markup=False, highlight=False, emoji=False, stderr=True)
    parser = make_parser(argv)
    if not argv:
        parser.print_help()
        return 2
    try:
        options = parser.parse_args(argv)
        options.command(options, console)
    except (UserError, FailedRunsError, StoreError, OSError) as error:
        errors.print(f"gradsurgery: {error}", style="red", soft_wrap=True)
        return 2 if isinstance(error, UserError) else 1
    except KeyboardInterrupt:
        errors.print("gradsurgery: stopped; the same command continues")
        return 130
    return 0
