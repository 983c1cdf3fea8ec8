"""The environment of a run, for its record: versions, commit and cores."""

import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gradsurgery.lab.run import Setting


def environment(cores: int) -> dict[str, Setting]:
    """The environment of a run that may use this many cores."""
    return {**_versions(), "commit": _commit(), "cores": cores}


@cache
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in ("gradsurgery", "jax", "optax", "flax", "torch", "numpy", "datasets", "tokenizers"):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


@cache
def _commit() -> str:
    """The commit of this source tree; empty without git or outside a repository."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
