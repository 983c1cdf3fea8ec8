"""What to say if the libraries of the extra ``lab`` are missing."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def require_extra() -> Iterator[None]:
    """Explain how to get a library that the block cannot import."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = str(error.name).partition(".")[0]
        if error.name is None or name == "gradsurgery":
            raise
        raise ModuleNotFoundError(f'gradsurgery.lab needs {name}: pip install "gradsurgery[lab]"', name=name) from error
