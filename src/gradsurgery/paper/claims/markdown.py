"""The ledger as a page in Markdown: a summary in words, a table for each topic, and how it was measured."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gradsurgery.paper.claims.claim import Claim, Result
from gradsurgery.paper.claims.ledger import SCALES
from gradsurgery.paper.claims.rule import Verdict
from gradsurgery.paper.claims.summary import TOPICS, largest_scale, summarise

_METHOD = Path(__file__).parent / "assets" / "method.md"

_OPENING = """# Which claims of the paper hold

The ledger has {count} claims: those of *Careful with that Scalpel* that two cores can test by training, and some beyond
it. Each has a rule, fixed in code, for its 95 % interval over seeds. In short, at the largest size that was run:
"""

_READING = """
Of all claims {counts}.

Bloop *leads* where its Pareto front is better than that of mixed training, or of the rival that is named; main −25 %
says that its main loss is 25 % lower at equal aux. DB is the dynamic barrier, and hypervolumes are compared with mixed
training’s. Numbers are means over seeds, with an interval where it leaves a claim open. The tables have all intervals,
and below each stands what would decide its claims or strengthen the evidence.
"""
_COUNTED = {Verdict.HOLDS: "hold", Verdict.FAILS: "do not", Verdict.UNDECIDED: "are open", None: "still to be run"}


def render_markdown(by_scale: Mapping[str, Sequence[Result]], claims: Mapping[str, Claim]) -> str:
    """The page, for the claims that have a topic; those without results are reported as not run."""
    latest = largest_scale(by_scale)
    lines = [_OPENING.format(count=len(claims))]
    lines += [f"- **{topic}.** {line}" for topic, line in summarise(latest).items()]
    counts = Counter(latest[name].verdict if name in latest else None for name in claims)
    counted = ", ".join(f"{counts[verdict]} {words}" for verdict, words in _COUNTED.items() if counts[verdict])
    lines.append(_READING.format(counts=counted))
    results = {(result.claim.id, result.scale): result for each in by_scale.values() for result in each}
    for topic, clauses in TOPICS.items():
        lines += _section(topic, [claims[clause.id] for clause in clauses], results)
    return "\n".join([*lines, _METHOD.read_text("utf-8")])


def _section(topic: str, claims: Sequence[Claim], results: Mapping[tuple[str, str], Result]) -> Iterator[str]:
    """The verdicts on some claims at all scales, what was measured, and what would strengthen the evidence."""
    yield from (
        f"## {topic}",
        "",
        f"| | claim | holds if | {' | '.join(SCALES)} |",
        f"|---|---|---|{'---|' * len(SCALES)}",
    )
    advice: dict[str, list[str]] = {}
    for claim in claims:
        advice.setdefault(claim.decides, []).append(f"**{claim.id}**")
        at_scales = [results.get((claim.id, scale)) for scale in SCALES]
        yield _row(
            f"**{claim.id}**",
            f"{claim.sentence} *({claim.section})*",
            "",
            *(
                "<br>".join([f"**{result.verdict}**, {result.seeds} seeds", *result.notes])
                if result
                else "not run yet" * (scale in claim.grids)
                for scale, result in zip(SCALES, at_scales, strict=True)
            ),
        )
        for number, statistic in enumerate(claim.statistics):
            measured = (result.measurements[number].text if result else "" for result in at_scales)
            yield _row("", statistic.name, statistic.criterion, *measured)
    yield ""
    yield from (f"- {', '.join(ids)}: {text}" for text, ids in advice.items())
    yield ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
