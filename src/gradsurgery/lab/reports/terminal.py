"""The summary of a sweep in the terminal: the fronts, runs without a result, and at the end the answer."""

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gradsurgery.lab.analysis.allowance import DEFAULT, Allowance
from gradsurgery.lab.analysis.compare import compare_methods
from gradsurgery.lab.analysis.conditions import condition_warnings
from gradsurgery.lab.analysis.level_costs import level_costs
from gradsurgery.lab.analysis.options import collect_options, describe_changes
from gradsurgery.lab.analysis.outcomes import outcome_sentences, progress_sentences
from gradsurgery.lab.analysis.recommend import Advice, advise
from gradsurgery.lab.analysis.series import SPLITS, group_runs, main_alone, splits_with_points
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.run import RunRecord


def print_summary(records: Sequence[RunRecord], console: Console) -> None:
    """Print how the fronts compare, then one line each for diverged, failed and stopped runs.

    Names and reasons come from the store and may contain anything, so nothing is parsed as rich markup.
    """
    for split in splits_with_points(group_runs(records))[-1:]:  # held-out losses if there are any
        comparison = compare_methods(records, split)
        if len(comparison.methods) > 1:
            lead = f"hypervolume lead over {comparison.rival} ({split})"
            table = Table("method", lead, "main at equal aux", "runs", box=None)
            for method in comparison.methods:
                table.add_row(Text(method.label), *method.texts, str(method.runs))
            console.print(table)
    for sentence in outcome_sentences(records):
        _print(console, sentence, style="bold red")


def print_recommendations(
    records: Sequence[RunRecord], console: Console, allowance: Allowance = DEFAULT, *, required: bool = False
) -> None:
    """Print the best λ of each method if main may be a little worse than main alone, which method wins, and the code.

    If nothing can be recommended, print the reason, or raise it as a ``UserError`` if an answer is ``required``.
    """
    try:
        advice = advise(collect_options(records), allowance)
    except ValueError as error:
        if required:
            raise UserError(str(error)) from error
        for sentence in progress_sentences(records):
            _print(console, sentence)
        if any(main_alone(records, split) for split in SPLITS):
            _print(console, f"No recommendation: {error}.")
        return
    criteria = advice.options.criteria
    _print(
        console,
        f"If {criteria.main.name} may be {advice.allowance} worse than main alone ({criteria.data}):",
    )
    for text in (*(each.text for each in advice.recommendations), *advice.hints):
        _print(console, text, indent=2)
    for sentence in condition_warnings(records):
        _print(console, sentence, style="bold red")
    for cost in level_costs(advice):
        _print(console, f"{cost.name}: {describe_changes(cost.changes)}", indent=2)
    _print_answer(advice, console)


def _print_answer(advice: Advice, console: Console) -> None:
    """The last lines: which method wins, what it costs and gains, and code to paste."""
    provisional = f"Provisional: {advice.provisional}." if advice.provisional else ""
    for sentence in filter(None, (advice.verdict, provisional, advice.gain)):
        _print(console, sentence)
    if advice.best is not None:
        console.print(Text(advice.best.code, style="bold"), soft_wrap=True)  # one line, to be copied


def _print(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    """Print a sentence: broken between words on a terminal, one line in a file."""
    if console.is_terminal:
        console.print(Padding(Text(text, style=style), (0, 0, 0, indent), expand=False))
    else:
        console.print(Text(f"{' ' * indent}{text}", style=style), soft_wrap=True)
