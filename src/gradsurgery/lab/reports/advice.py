"""The recommendations on top of a report, as HTML: a row for each allowance, with a sentence for each method."""

import re
from collections.abc import Mapping, Sequence
from html import escape

from gradsurgery.lab.reports.looks import look
from gradsurgery.lab.reports.options import main_alone
from gradsurgery.lab.reports.recommend import Recommendation, recommend, verdict
from gradsurgery.lab.reports.series import SPLITS
from gradsurgery.lab.reports.tables import swatch
from gradsurgery.lab.run import RunRecord

TABLE_ALLOWANCES = (0.01, 0.02, 0.05, 0.1)
"""One row of the table for each."""
_DATA = {"test": "held-out", "train": "training"}


def advice_table(records: Sequence[RunRecord]) -> str:
    """The table, or a sentence that says why there is no recommendation; empty for runs without main alone."""
    try:
        return _table({allow: recommend(records, allow) for allow in TABLE_ALLOWANCES})
    except ValueError as error:
        has_main_alone = any(main_alone(records, split) for split in SPLITS)
        return f"<p>No recommendation: {escape(str(error))}.</p>" if has_main_alone else ""


def _table(by_allowance: Mapping[float, Sequence[Recommendation]]) -> str:
    split = next(iter(by_allowance.values()))[0].split
    headings = "".join(f'<th scope="col">{text}</th>' for text in ("Main may be worse by", "Lowest aux of each method"))
    allowances: dict[str, list[str]] = {}  # equal rows are merged
    for allow, recommendations in by_allowance.items():
        allowances.setdefault(_sentences(recommendations), []).append(_keep_together(f"{100 * allow:g} %"))
    rows = "".join(
        f'<tr><th scope="row">{", ".join(percentages)}</th><td>{sentences}</td></tr>'
        for sentences, percentages in allowances.items()
    )
    note = f"Changes compare with main alone (λ = 0) on {_DATA[split]} losses, seed by seed, ± one standard deviation."
    table = f'<table class="advice"><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table>'
    return f'{table}<p class="note">{note}</p>'


def _sentences(recommendations: Sequence[Recommendation]) -> str:
    methods = [recommendation.method for recommendation in recommendations]
    items = "".join(
        f"<li>{swatch(look(recommendation.method, methods))}{_keep_together(escape(recommendation.text))}</li>"
        for recommendation in recommendations
    )
    sentence = verdict(recommendations)
    return f"<ul>{items}</ul>" + (f"<strong>{escape(sentence)}</strong>" if sentence else "")


def _keep_together(text: str) -> str:
    """The text with no line break between a number and its sign or unit."""
    return re.sub(r" ([%±=]) ?", lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
