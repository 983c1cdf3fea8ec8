"""Text that needs no download: Python's own sources and help topics, and numbers spelled out in English and German."""

import sysconfig
from collections.abc import Callable
from pathlib import Path

import numpy as np


def python_sources(held_out: bool) -> list[str]:
    """Return the top-level modules of the standard library; every tenth is held out."""
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return _every_tenth([path.read_text("utf-8", "replace") for path in paths], held_out)


def python_topics(held_out: bool) -> list[str]:
    """Return the texts that ``help("TOPIC")`` prints, sorted by topic; every tenth is held out."""
    from pydoc_data.topics import topics

    return _every_tenth([topics[name] for name in sorted(topics)], held_out)


def number_cardinals(held_out: bool) -> list[tuple[str, str]]:
    """Return 5,000 numbers below a million, uniform in their logarithm, or 500 others if ``held_out``."""
    exponents = np.random.default_rng(0).uniform(0, 6, 12_000)
    return _spell_out([int(10**exponent) for exponent in exponents], "cardinal", held_out, train=5000, test=500)


def number_years(held_out: bool) -> list[tuple[str, str]]:
    """Return 200 of the years 1000 to 2099, or 500 others if ``held_out``; years read "twenty twenty-six"."""
    return _spell_out(list(range(1000, 2100)), "year", held_out, train=200, test=500)


DOCUMENTS: dict[str, Callable[[bool], list[str]]] = {
    "python-sources": python_sources,
    "python-topics": python_topics,
}
"""Built-in corpora for language models: ``held_out -> documents``."""

SENTENCE_PAIRS: dict[str, Callable[[bool], list[tuple[str, str]]]] = {
    "number-cardinals": number_cardinals,
    "number-years": number_years,
}
"""Built-in corpora for translation: ``held_out -> (English, German) pairs``."""


def _every_tenth(documents: list[str], held_out: bool) -> list[str]:
    return [document for index, document in enumerate(documents) if (index % 10 == 0) == held_out]


def _spell_out(numbers: list[int], kind: str, held_out: bool, *, train: int, test: int) -> list[tuple[str, str]]:
    from num2words import num2words

    unique = np.random.default_rng(2).permutation(sorted(set(numbers))).tolist()
    assert len(unique) >= train + test, len(unique)
    selected = unique[train : train + test] if held_out else unique[:train]
    return [(num2words(number, lang="en", to=kind), num2words(number, lang="de", to=kind)) for number in selected]
