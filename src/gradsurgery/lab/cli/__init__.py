"""The command line ``gradsurgery``: it parses text and calls ``lab.sweep``, ``lab.report`` and ``lab.recommend``.

``run`` reports errors, ``parser`` has the commands and their options, ``commands`` executes them, ``listing`` prints
problems. What takes long to import is imported inside the commands that need it, so that help, ``list`` and mistakes
answer at once.
"""

import sys
from collections.abc import Sequence

from gradsurgery.lab.extra import require_extra


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 2 for a mistake of the user, 1 for any other failure."""
    try:
        with require_extra():
            from gradsurgery.lab.cli.run import run_command
    except ModuleNotFoundError as error:
        print(f"gradsurgery: {error}", file=sys.stderr)
        return 2
    return run_command(sys.argv[1:] if argv is None else argv)
