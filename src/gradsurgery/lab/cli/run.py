"""Execute a command, and report its errors in one sentence."""

import argparse
from collections.abc import Callable, Sequence

from rich.console import Console

from gradsurgery.lab.cli.parser import make_parser
from gradsurgery.lab.errors import FailedRunsError, UserError
from gradsurgery.lab.store import StoreError


def run_command(argv: Sequence[str]) -> int:
    """Execute a command and return the exit code: 2 for a mistake of the user, 1 for any other failure."""
    # text from users and stores is printed as it is, never parsed as markup
    console = Console(markup=False, highlight=False, emoji=False)
    errors = Console(markup=False, highlight=False, emoji=False, stderr=True)

    def print_error(error: Exception) -> None:
        errors.print(f"gradsurgery: {error}", style="red", soft_wrap=True)

    parser = make_parser(argv)
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
