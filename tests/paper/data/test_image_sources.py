"""Batches of images from memory and from disk: reproducible from the seed and the step, and divisible into shards."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

import grain
import numpy as np
import pytest

from gradsurgery.paper.data.images.builtin import digits, photographs
from gradsurgery.paper.data.images.dataset import ImageDataset
from gradsurgery.paper.data.images.disk import DiskSource
from gradsurgery.paper.data.images.memory import MemorySource
from tests.lab.sweep.test_workers import children, wait_for_exit


def disk_source(folder, size):
    train, test = (
        ImageDataset("ILSVRC/imagenet-1k", folder, held_out=held_out, classes="all", count=100)
        for held_out in (False, True)
    )
    return DiskSource(train, test, size=size)


@pytest.fixture
def in_process(monkeypatch):
    """Decode images in this process: starting workers takes seconds."""
    monkeypatch.setattr(grain.IterDataset, "mp_prefetch", lambda dataset, options, worker_init_fn: dataset)


@pytest.fixture(params=["memory", "disk"])
def source(request, imagenet, in_process):
    if request.param == "memory":
        return MemorySource(digits(False), digits(True), size=16, margin=2)
    return disk_source(imagenet, 16)


def pixels(source, batch):
    return np.asarray(source.images(source.data, batch))


def labels(source, batch):
    return np.asarray(source.labels(source.data, batch))


@pytest.mark.slow
def test_later_steps_and_shards_equal_those_of_the_whole(source):
    whole = list(islice(source.batches(8, slice(0, 8), (0, 1), 0), 3))
    shard = next(source.batches(8, slice(4, 8), (0, 1), 2))
    np.testing.assert_array_equal(pixels(source, shard), pixels(source, whole[2])[4:])
    np.testing.assert_array_equal(labels(source, shard), labels(source, whole[2])[4:])
    another_seed = next(source.batches(8, slice(0, 8), (1, 1), 0))
    assert not np.array_equal(pixels(source, another_seed), pixels(source, whole[0]))
    assert pixels(source, whole[0]).shape == (8, 16, 16, 3)
    assert 0 <= pixels(source, whole[0]).min() < pixels(source, whole[0]).max() <= 1


def test_evaluation_images_are_evenly_spaced_and_not_augmented(source):
    whole = list(source.evaluation_batches(True, 8, 4, slice(0, 4)))
    assert len(whole) == 2
    shards = list(source.evaluation_batches(True, 8, 4, slice(2, 4)))
    for batch, shard in zip(whole, shards, strict=True):
        np.testing.assert_array_equal(pixels(source, batch)[2:], pixels(source, shard))
    if isinstance(source, DiskSource):
        assert [int(label) for batch in whole for label in labels(source, batch)] == [100 * n for n in range(8)]
        for number, image in enumerate(np.concatenate([pixels(source, batch) for batch in whole])):
            np.testing.assert_allclose(image * 255, 20 * number, atol=2)
    else:
        first = digits(True).pixels[0].astype(float).mean() / 255
        assert float(pixels(source, whole[0])[0].mean()) == pytest.approx(first, abs=0.02)


def test_an_epoch_from_disk_has_every_image_once(imagenet, in_process):
    source = disk_source(imagenet, 8)
    assert (len(source), source.classes) == (12, 1000)
    batches = [labels(source, batch) for batch in islice(source.batches(6, slice(0, 6), (0,), 0), 4)]
    epochs = [np.concatenate(half).tolist() for half in (batches[:2], batches[2:])]
    assert [sorted(epoch) for epoch in epochs] == [sorted(min(100 * n, 999) for n in range(12))] * 2
    assert epochs[0] != epochs[1]


def test_digits_are_not_flipped():
    source = MemorySource(digits(False), digits(True), size=8, margin=0)
    batches = islice(source.batches(64, slice(0, 64), (0,), 0), 5)
    assert not any(batch["augmentation"].flip.any() for batch in batches)
    source = MemorySource(photographs(False), photographs(True), size=16, margin=0)
    assert 10 < next(source.batches(64, slice(0, 64), (0,), 0))["augmentation"].flip.sum() < 54


@pytest.mark.slow
def test_worker_processes_make_the_same_batches_as_one_process(imagenet, request):
    source = disk_source(imagenet, 8)
    by_workers = list(islice(source.batches(8, slice(0, 8), (0,), 0), 3))
    request.getfixturevalue("in_process")
    for actual, expected in zip(by_workers, source.batches(8, slice(0, 8), (0,), 0), strict=False):
        np.testing.assert_array_equal(actual["pixels"], expected["pixels"])
        np.testing.assert_array_equal(actual["labels"], expected["labels"])


@pytest.mark.slow
def test_workers_exit_when_their_parent_is_killed(imagenet):
    program = f"""
from pathlib import Path
from gradsurgery.paper.data.images.disk import DiskSource
from gradsurgery.paper.data.images.dataset import ImageDataset
if __name__ == "__main__":
    rows = ImageDataset("ILSVRC/imagenet-1k", Path({str(imagenet)!r}), held_out=False, classes="all", count=9)
    batches = DiskSource(rows, rows, size=8).batches(4, slice(0, 4), (0,), 0)
    next(batches)
    print("ready", flush=True)
    input()
"""
    script = imagenet / "decode.py"
    script.write_text(program)
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        workers = [pid for pid in children(process.pid) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert workers
        process.kill()
    wait_for_exit(workers)
