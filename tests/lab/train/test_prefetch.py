import threading

import pytest

from gradsurgery.lab.train.prefetch import Prefetcher


def test_the_next_batches_are_begun_while_a_call_runs():
    made, second = [], threading.Event()

    def make(seed, call):
        made.append((seed, call))
        if call == 1:
            second.set()
        return seed, call

    batches = Prefetcher(make, chunks=2)
    assert batches(0, 0) == (0, 0)
    assert second.wait(10), "nobody asked for the second call yet"
    assert batches(0, 1) == (0, 1)
    assert made == [(0, 0), (0, 1)]


def test_another_run_gets_its_own_batches():
    batches = Prefetcher(lambda seed, call: (seed, call), chunks=9)
    assert [batches(*asked) for asked in ((0, 0), (1, 0), (0, 5), (0, 6))] == [(0, 0), (1, 0), (0, 5), (0, 6)]


def test_what_goes_wrong_is_told_to_whoever_asked():
    def make(seed, call):
        raise ValueError(f"call {call}")

    batches = Prefetcher(make, chunks=3)
    for call in (0, 1):
        with pytest.raises(ValueError, match=f"call {call}"):
            batches(0, call)
