"""Text that comes with Python, for demonstrations: its standard library as code, its reference as prose."""

import sysconfig
from pathlib import Path


def sources(held_out: bool) -> list[str]:
    """The modules at the top of the standard library; every tenth is held out."""
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return _part([path.read_text("utf-8", "replace") for path in paths], held_out)


def topics(held_out: bool) -> list[str]:
    """What ``help("TOPIC")`` prints, by topic; every tenth is held out."""
    from pydoc_data.topics import topics as texts

    return _part([texts[name] for name in sorted(texts)], held_out)


def _part(documents: list[str], held_out: bool) -> list[str]:
    return [document for index, document in enumerate(documents) if (index % 10 == 0) == held_out]
