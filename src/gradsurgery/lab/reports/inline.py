"""Results inside a notebook: pages in frames, which isolate their style from the notebook's."""

from collections.abc import Sequence
from html import escape

from gradsurgery.lab.analysis.outcomes import outcome_sentences, progress_sentences
from gradsurgery.lab.analysis.recommend import Advice
from gradsurgery.lab.reports.answer import Answers, page_answers
from gradsurgery.lab.reports.page import render
from gradsurgery.lab.run import RunRecord

_FIT = "this.style.height = this.contentDocument.documentElement.scrollHeight + 'px'"


def show_records(records: Sequence[RunRecord]) -> str:
    """The answer of a sweep."""
    answers = page_answers(records) if records else None
    warnings = outcome_sentences(records)
    if answers is None or answers.reason:
        warnings += progress_sentences(records)
    return _show(f"{len(records)} run{'s' * (len(records) != 1)}", answers, warnings)


def show_advice(advice: Advice) -> str:
    """The answer for one allowance."""
    return _show("", Answers([advice]), [])


def frame(page: str, height: str = "12rem", onload: str = "") -> str:
    """A page inside another one."""
    style = f"width: 100%; height: {height}; border: 0"
    return f'<iframe srcdoc="{escape(page)}" style="{style}" onload="{onload}"></iframe>'


def _show(title: str, answers: Answers | None, warnings: Sequence[str]) -> str:
    page = render("inline.html", {"title": title, "answers": answers, "warnings": warnings})
    return frame(page.decode(), onload=_FIT)
