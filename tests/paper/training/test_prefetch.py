import threading

import pytest

from gradsurgery.paper.training.prefetch import Prefetcher


def test_the_next_chunk_is_made_in_advance():
    made, second = [], threading.Event()

    def make(seed, chunk):
        made.append((seed, chunk))
        if chunk == 1:
            second.set()
        return seed, chunk

    batches = Prefetcher(make, chunks=2)
    assert batches(0, 0) == (0, 0)
    assert second.wait(600), "the second chunk is not made before it is asked for"
    assert batches(0, 1) == (0, 1)
    assert made == [(0, 0), (0, 1)]


def test_another_run_gets_its_own_batches():
    batches = Prefetcher(lambda seed, chunk: (seed, chunk), chunks=9)
    assert [batches(*asked) for asked in ((0, 0), (1, 0), (0, 5), (0, 6))] == [(0, 0), (1, 0), (0, 5), (0, 6)]


def test_an_error_is_raised_for_the_chunk_that_has_it():
    def make(seed, chunk):
        raise ValueError(f"chunk {chunk}")

    batches = Prefetcher(make, chunks=3)
    for chunk in (0, 1):
        with pytest.raises(ValueError, match=f"chunk {chunk}"):
            batches(0, chunk)
