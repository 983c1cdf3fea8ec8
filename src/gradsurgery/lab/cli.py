"""The command line: list, run, sweep, report, recommend, export, claims.

What takes long to import is imported inside the commands that need it, so that help, ``list`` and mistakes in the
arguments answer at once.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

from rich.console import Console

from gradsurgery.lab.errors import FailedRunsError, UserError
from gradsurgery.lab.parser import make_parser
from gradsurgery.lab.store import StoreError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 2 for a mistake of the user, 1 for any other failure."""
    # text from users and stores is printed as it is, never parsed as markup
    console = Console(markup=False, highlight=False, emoji=False)
    errors = Console(markup=False, highlight=False, emoji=False, stderr=True)

    def print_error(error: Exception) -> None:
        errors.print(f"gradsurgery: {error}", style="red", soft_wrap=True)

    argv = sys.argv[1:] if argv is None else argv
    parser = make_parser()
    if not argv:
        parser.print_help()
        return 2
    try:
        options = parser.parse_args(argv)
        command: Callable[[argparse.Namespace, Console], None] = options.command
        command(options, console)
    except UserError as error:
        print_error(error)
        return 2
    except (FailedRunsError, StoreError, OSError) as error:
        print_error(error)
        return 1
    except KeyboardInterrupt:
        errors.print("gradsurgery: stopped; the same command continues")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
