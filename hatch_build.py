"""The README as the package index shows it: its links lead to the repository, as the index has only this one page.

The address is ``Repository`` in ``[project.urls]`` of pyproject.toml; without one, links stay as they are.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def link_to_repository(text: str, repository: str) -> str:
    """The text with absolute links to the files of the repository, and to the image itself where one is shown."""

    def absolute(match: re.Match[str]) -> str:
        kind = "raw" if match["image"] else "blob"
        return f"{match['image']}[{match['words']}]({repository}/{kind}/main/{match['path']})"

    return re.sub(r"(?P<image>!?)\[(?P<words>[^]]*)\]\((?!https:|#)(?P<path>[^)]+)\)", absolute, text)


class ReadmeHook(MetadataHookInterface):
    """Provides ``readme``, which pyproject.toml declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        if repository:
            text = link_to_repository(text, repository)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
