"""The environment of a run, for its record: versions and cores."""

import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from gradsurgery.lab.run import Setting


def environment(cores: int) -> dict[str, Setting]:
    """The environment of a run that may use this many cores."""
    return {**_versions(), "cores": cores}


@cache
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in ("gradsurgery", "jax", "optax", "flax", "torch", "numpy", "datasets", "tokenizers"):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
