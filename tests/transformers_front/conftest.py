"""Settings that make tiny trainers fast."""

import gc

import pytest
import transformers  # noqa: F401


@pytest.fixture(autouse=True, scope="session")
def _cheap_garbage_collection():
    """``Trainer`` collects garbage at the start of training, and takes a second over the modules that are loaded."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
