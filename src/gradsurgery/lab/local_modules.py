"""The user's own modules, which other machines lack: a sweep on a cluster sends their sources along."""

import atexit
import importlib
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import mkdtemp


def collect_sources(names: Iterable[str]) -> dict[str, bytes]:
    """The sources of the user's own modules, and of loaded modules in the same folders, by relative path.

    Given the names of the modules that define the problem and the methods; ``__main__`` stands for a script. Installed
    packages are left out: every machine has its own.
    """
    tops = {name.partition(".")[0] for name in names} - {"gradsurgery"}
    folders = {path.parent for top in tops if (path := _path(top))} - installation_folders()
    loaded = {name for name in list(sys.modules) if "." not in name} - {"__main__", "gradsurgery"}
    sources = {}
    for path in {path for name in loaded if (path := _path(name)) and path.parent in folders}:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            sources[str(file.relative_to(path.parent))] = file.read_bytes()
    return sources


def install_sources(sources: Mapping[str, bytes]) -> None:
    """Make modules importable in this process. They replace loaded modules of the same names."""
    if not sources:
        return
    folder = Path(mkdtemp(prefix="gradsurgery-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, source in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(source)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    tops = {Path(name).parts[0].removesuffix(".py") for name in sources}
    for module in [module for module in sys.modules if module.partition(".")[0] in tops]:
        del sys.modules[module]


def _path(name: str) -> Path | None:
    """The file of a loaded module, or the folder of a package; None for any other."""
    module = sys.modules.get(name)
    folders = list(getattr(module, "__path__", []))
    file = folders[0] if folders else getattr(module, "__file__", None)
    path = None if file is None else Path(file).resolve()
    return path if path and (path.is_dir() or path.suffix == ".py") else None


def installation_folders() -> set[Path]:
    """Where Python and pip put modules."""
    site = [folder for folder in sys.path if folder.endswith(("site-packages", "dist-packages"))]
    standard = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return {Path(folder).resolve() for folder in (*standard, *site)}
