"""``gradsurgery claims``, found by an entry point. Help must be quick, so the ledger is loaded when it runs."""

import argparse
from pathlib import Path

from rich.console import Console

from gradsurgery.lab import RunRecord, Store, UserError
from gradsurgery.lab.cli.commands import raise_if_failed
from gradsurgery.lab.cli.parser import Subparsers, add_command, add_shared
from gradsurgery.lab.errors import unknown
from gradsurgery.lab.sweep.progress import ProgressBar

_EXAMPLES = """
  gradsurgery claims                              train what is missing, and print a verdict on each claim
  gradsurgery claims C12 C13 --scale laptop --data-dir data"""


def add_claims_command(subparsers: Subparsers) -> None:
    """Add ``gradsurgery claims``; an entry point in the group ``gradsurgery.commands``."""
    summary = "measure the claims of the paper, and print the verdicts"
    parser = add_command(subparsers, "claims", claims, summary, examples=_EXAMPLES)
    parser.add_argument("ids", nargs="*", metavar="ID", help="such as C12 C13 (default: all)")
    parser.add_argument("--scale", help="demo (default) or laptop")
    add_shared(parser, "--folder", "--data-dir", "--workers", "--checkpoint-every")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page in Markdown too")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write the runs behind the verdicts as Parquet")
    parser.add_argument("--from", type=Path, dest="records", metavar="FILE", help="read an --export, train nothing")


def claims(options: argparse.Namespace, console: Console) -> None:
    """Train the missing runs of the claims of the paper, and print and write the verdicts."""
    from gradsurgery.paper.claims.ledger import SCALES, select
    from gradsurgery.paper.claims.records import read_records
    from gradsurgery.paper.claims.training import train_claims
    from gradsurgery.paper.claims.write import write_ledger

    chosen, scale = select(options.ids), options.scale or SCALES[0]
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES, where="of the claims")
    if not options.records and not any(scale in claim.grids for claim in chosen):
        raise UserError(f"{', '.join(claim.id for claim in chosen)} cannot be tested at the scale {scale}")
    trained: list[RunRecord] = []
    if options.records:
        stored = read_records(options.records)
    else:
        with ProgressBar(console) as bar:
            trained = train_claims(
                chosen,
                scale,
                folder=options.folder,
                listener=bar,
                workers=options.workers,
                data_dir=options.data_dir,
                checkpoint_every=options.checkpoint_every,
            )
        with Store(options.folder) as store:
            stored = store.select()
    write_ledger(
        chosen,
        stored,
        console,
        folder=options.folder / "report" / "claims",
        markdown=options.markdown,
        export=options.export,
    )
    raise_if_failed(trained, options.folder)
