"""Images from memory and from disk: what a step sees follows from the seed and its number, and parts make the whole."""

import io
import subprocess
import sys
from itertools import islice
from pathlib import Path

import datasets
import numpy as np
import pytest
from PIL import Image

from gradsurgery.lab.data.images.augment import Augmentation, augment
from gradsurgery.lab.data.images.builtin import digits, photographs
from gradsurgery.lab.data.images.crop import center_crop, crop_and_resize, random_crop
from gradsurgery.lab.data.images.dataset import ImageDataset
from gradsurgery.lab.data.images.disk import DiskSource
from gradsurgery.lab.data.images.memory import MemorySource
from gradsurgery.lab.data.images.source import load_images
from gradsurgery.lab.errors import UserError
from tests.lab.data.image_files import encoded
from tests.lab.sweeps.test_workers import children, wait_until_ended


def table(folder, *, held_out=False, classes="all", count=100):
    return ImageDataset("ILSVRC/imagenet-1k", folder, held_out=held_out, classes=classes, count=count)


def on_disk(folder, size):
    return DiskSource(table(folder), table(folder, held_out=True), size=size)


@pytest.fixture(params=["memory", "disk"])
def source(request, imagenet):
    if request.param == "memory":
        return MemorySource(digits(False), digits(True), size=16, margin=2)
    return on_disk(imagenet, 16)


def pixels(source, batch):
    return np.asarray(source.images(source.data, batch))


def labels(source, batch):
    return np.asarray(source.labels(source.data, batch))


def test_a_later_step_and_a_part_of_it_are_those_of_the_whole(source):
    whole = list(islice(source.batches(8, slice(0, 8), (0, 1), 0), 3))
    part = next(source.batches(8, slice(4, 8), (0, 1), 2))
    np.testing.assert_array_equal(pixels(source, part), pixels(source, whole[2])[4:])
    np.testing.assert_array_equal(labels(source, part), labels(source, whole[2])[4:])
    other = next(source.batches(8, slice(0, 8), (1, 1), 0))
    assert not np.array_equal(pixels(source, other), pixels(source, whole[0]))
    assert pixels(source, whole[0]).shape == (8, 16, 16, 3)
    assert 0 <= pixels(source, whole[0]).min() < pixels(source, whole[0]).max() <= 1


def test_images_are_evaluated_as_they_are_from_all_over_the_set(source):
    found = list(source.evaluation_batches(True, 8, 4, slice(0, 4)))
    assert len(found) == 2
    again = list(source.evaluation_batches(True, 8, 4, slice(2, 4)))
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(pixels(source, one)[2:], pixels(source, other))
    if isinstance(source, DiskSource):
        assert [int(label) for one in found for label in labels(source, one)] == [100 * n for n in range(8)]
        for number, image in enumerate(np.concatenate([pixels(source, one) for one in found])):
            np.testing.assert_allclose(image * 255, 20 * number, atol=2)
    else:
        first = digits(True).pixels[0].astype(float).mean() / 255
        assert float(pixels(source, found[0])[0].mean()) == pytest.approx(first, abs=0.02)


def test_an_epoch_on_disk_sees_every_image_once(imagenet):
    source = on_disk(imagenet, 8)
    assert (len(source), source.classes) == (12, 1000)
    seen = [labels(source, one) for one in islice(source.batches(6, slice(0, 6), (0,), 0), 4)]
    orders = [np.concatenate(half).tolist() for half in (seen[:2], seen[2:])]
    assert [sorted(order) for order in orders] == [sorted(min(100 * n, 999) for n in range(12))] * 2
    assert orders[0] != orders[1]


def test_crops_are_within_the_image_and_not_too_long():
    chance = np.random.default_rng(0)
    for _ in range(200):
        width, height = (int(side) for side in chance.integers(30, 300, 2))
        box = random_crop(width, height, chance)
        across, down = box.right - box.left, box.lower - box.upper
        assert -1e-9 <= box.left <= box.right <= width + 1e-9
        assert -1e-9 <= box.upper <= box.lower <= height + 1e-9
        assert across * down >= 0.08 * width * height - 1e-6 or across == down == min(width, height)
        assert 3 / 4 - 1e-9 <= across / down <= 4 / 3 + 1e-9


def test_a_coarsely_decoded_jpeg_shows_the_same_part():
    """As of the same picture in a form that is always decoded in full."""
    ramp = np.linspace(0, 255, 1024, dtype=np.float32)
    picture = np.stack([np.broadcast_to(ramp, (1024, 1024)), *[np.broadcast_to(ramp[:, None], (1024, 1024))] * 2], -1)
    box = center_crop(1024, 1024, 0.5)
    coarse, fine = (
        crop_and_resize(Image.open(io.BytesIO(encoded(picture.astype(np.uint8), kind=kind)["bytes"])), box, 32)
        for kind in ("JPEG", "PNG")
    )
    np.testing.assert_allclose(coarse.astype(int), fine.astype(int), atol=6)


def test_flips_and_crops_by_hand():
    image = np.arange(1, 10, dtype=np.uint8).reshape(1, 3, 3, 1)
    moved = augment(image, Augmentation(np.array([[0, 1]]), np.array([False])), 1)
    np.testing.assert_array_equal(moved[0, ..., 0], [[0, 0, 0], [1, 2, 3], [4, 5, 6]])
    flipped = augment(image, Augmentation(np.array([[1, 1]]), np.array([True])), 1)
    np.testing.assert_array_equal(flipped[0, ..., 0], image[0, :, ::-1, 0])


def test_images_of_different_sizes_are_not_for_the_memory(imagenet):
    with pytest.raises(UserError, match="images held in memory must all have one size and one number of channels, but"):
        load_images("ILSVRC/imagenet-1k", imagenet, held_out=False, count=10)


def test_a_table_takes_the_first_rows_or_where_they_lack_a_class_rows_from_all_over(imagenet):
    assert table(imagenet).labels.tolist() == [min(100 * n, 999) for n in range(12)]
    assert table(imagenet, count=4).labels.tolist() == [0, 300, 600, 900]
    chosen = table(imagenet, classes="200-500")
    assert (chosen.labels.tolist(), chosen.classes) == ([0, 100, 200, 300], 301)
    assert np.asarray(chosen.image(0)).mean() == pytest.approx(np.asarray(table(imagenet).image(2)).mean())
    with pytest.raises(UserError, match=r"train of .* has no image of the classes 1-99"):
        table(imagenet, classes="1-99")


def test_labels_that_are_words_get_one_sentence(tmp_path):
    (tmp_path / "animals").mkdir()
    rows = {"image": [encoded(np.zeros((8, 8, 3), np.uint8))], "label": ["cat"]}
    datasets.Dataset.from_dict(rows).to_parquet(tmp_path / "animals" / "train.parquet")
    with pytest.raises(UserError, match="labels must be integers, but train of me/animals has 'cat'"):
        load_images("me/animals", tmp_path, held_out=False, count=1)


def test_digits_are_not_mirrored():
    source = MemorySource(digits(False), digits(True), size=8, margin=0)
    batches = islice(source.batches(64, slice(0, 64), (0,), 0), 5)
    assert not any(batch["augmentation"].flip.any() for batch in batches)
    source = MemorySource(photographs(False), photographs(True), size=16, margin=0)
    assert 10 < next(source.batches(64, slice(0, 64), (0,), 0))["augmentation"].flip.sum() < 54


def test_workers_that_decode_end_with_the_process_that_began_them(imagenet):
    """A process from which nothing can clean up after itself, as it is killed."""
    program = f"""
from pathlib import Path
from gradsurgery.lab.data.images.disk import DiskSource
from gradsurgery.lab.data.images.dataset import ImageDataset
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
    wait_until_ended(workers)
