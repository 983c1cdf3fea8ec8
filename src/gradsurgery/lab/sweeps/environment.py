"""The environment of a run, for its record: versions, commit, device and cores."""

import functools
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from gradsurgery.lab.run import Setting


@functools.cache
def environment(cores: int) -> dict[str, Setting]:
    """The environment of this process.

    Args:
        cores: the number of cores it may use.
    """
    import jax

    packages = ("gradsurgery", "jax", "optax", "flax", "numpy", "datasets", "tokenizers")
    return {
        **{name: version(name) for name in packages},
        "python": platform.python_version(),
        "commit": _commit(),
        "device": jax.devices()[0].device_kind,
        "cores": cores,
    }


def _commit() -> str:
    """The commit of this source tree; empty without git or outside a repository."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
