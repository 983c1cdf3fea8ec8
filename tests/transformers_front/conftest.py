"""Settings that make tiny trainers fast."""

import gc

import pytest
import torch
import transformers  # noqa: F401


@pytest.fixture(autouse=True, scope="session")
def _cheap_garbage_collection():
    """``Trainer`` collects garbage at the start of training, and takes a second over the modules that are loaded."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
