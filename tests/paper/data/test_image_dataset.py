"""Which images are loaded, by name, class and count, and the error when that fails."""

import datasets
import numpy as np
import pytest

from gradsurgery.lab.errors import UserError
from gradsurgery.paper.data.images.builtin import digits, photographs
from gradsurgery.paper.data.images.dataset import ImageDataset
from gradsurgery.paper.data.images.load import load_images
from tests.paper.data.image_files import encode_image


def imagenet_rows(folder, classes="all", count=100):
    return ImageDataset("ILSVRC/imagenet-1k", folder, held_out=False, classes=classes, count=count)


def write_images(folder, labels, split="train", images=None):
    """Write a dataset ``animals`` of black images."""
    (folder / "animals").mkdir(exist_ok=True)
    images = images or [encode_image(np.zeros((8, 8, 3), np.uint8))] * len(labels)
    datasets.Dataset.from_dict({"image": images, "label": labels}).to_parquet(folder / "animals" / f"{split}.parquet")


@pytest.mark.parametrize("images", [digits, photographs])
def test_held_out_built_in_images_are_not_in_the_training_data(images):
    train, test = ({image.tobytes() for image in images(held_out).pixels} for held_out in (False, True))
    assert len(train & test) <= 0.02 * len(test)  # some tiles of plain sky are equal
    assert len(train) > 3 * len(test) > 0


def test_chosen_classes_are_renumbered_from_zero():
    chosen = load_images("digits", None, held_out=False, count=200, classes="5-9")
    assert (len(chosen), chosen.classes, set(chosen.labels)) == (200, 5, set(range(5)))
    everything = load_images("digits", None, held_out=False, count=2000)
    np.testing.assert_array_equal(chosen.pixels[0], everything.pixels[everything.labels >= 5][0])


@pytest.mark.parametrize("classes", ["5", "5-", "9-5", "0-10", "a-b"])
def test_invalid_classes(classes):
    with pytest.raises(UserError, match="classes of digits must be all or a range within 0-9; got"):
        load_images("digits", None, held_out=False, count=10, classes=classes)


def test_rows_are_the_first_or_evenly_spaced_if_those_lack_a_class(imagenet):
    assert imagenet_rows(imagenet).labels.tolist() == [min(100 * n, 999) for n in range(12)]
    assert imagenet_rows(imagenet, count=4).labels.tolist() == [0, 300, 600, 900]
    chosen = imagenet_rows(imagenet, classes="200-500")
    assert (chosen.labels.tolist(), chosen.classes) == ([0, 100, 200, 300], 301)
    np.testing.assert_array_equal(chosen.read(0, np.asarray), imagenet_rows(imagenet).read(2, np.asarray))
    with pytest.raises(UserError, match=r"train of .* has no image of the classes 1-99"):
        imagenet_rows(imagenet, classes="1-99")


def test_images_of_several_sizes_do_not_fit_in_one_array(imagenet):
    message = "images held in memory must all have one size and one number of channels; got"
    with pytest.raises(UserError, match=message):
        load_images("ILSVRC/imagenet-1k", imagenet, held_out=False, count=10)


@pytest.mark.parametrize("label", [0, -1])
def test_one_class_only(tmp_path, label):
    write_images(tmp_path, [label, label])
    with pytest.raises(UserError, match=f"me/animals must have at least two classes to train on; got {label + 1}"):
        load_images("me/animals", tmp_path, held_out=False, count=2)
    with pytest.raises(UserError, match="classes must be at least two; got '5-5'"):
        load_images("digits", None, held_out=False, count=10, classes="5-5")
    write_images(tmp_path, [0, 0], split="test")
    assert len(load_images("me/animals", tmp_path, held_out=True, count=2)) == 2


def test_no_images(tmp_path):
    write_images(tmp_path, [])
    with pytest.raises(UserError, match=r"could not load train of .*animals: .* no data"):
        load_images("me/animals", tmp_path, held_out=False, count=2)


def test_missing_label(tmp_path):
    write_images(tmp_path, [0, 1, None])
    with pytest.raises(UserError, match="labels must be integers; got 'None' in row 2 of train of me/animals"):
        load_images("me/animals", tmp_path, held_out=False, count=3)


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ({"bytes": b"junk", "path": None}, "unknown image format"),
        ({"bytes": encode_image(np.zeros((64, 64, 3), np.uint8))["bytes"][:400], "path": None}, "(?i:.*trunc)"),
        ({"bytes": None, "path": "/nowhere/a.png"}, ".*No such file or directory: '/nowhere/a.png'"),
    ],
)
def test_unreadable_image(tmp_path, cell, reason):
    write_images(tmp_path, [0, 1], images=[encode_image(np.zeros((8, 8, 3), np.uint8)), cell])
    with pytest.raises(UserError, match=r"could not read the image in row 1 of me/animals: " + reason):
        load_images("me/animals", tmp_path, held_out=False, count=2)


def test_missing_image(tmp_path):
    write_images(tmp_path, [0, 1], images=[{"bytes": None, "path": None}] * 2)
    with pytest.raises(UserError, match="row 0 of me/animals has no image"):
        load_images("me/animals", tmp_path, held_out=False, count=2)


def test_no_split_to_evaluate_on(tmp_path):
    write_images(tmp_path, [0, 1])
    message = "me/animals must have a split validation or test to evaluate on; got train"
    with pytest.raises(UserError, match=message):
        load_images("me/animals", tmp_path, held_out=True, count=2)


def test_text_labels(tmp_path):
    write_images(tmp_path, ["cat"])
    with pytest.raises(UserError, match="labels must be integers; got 'cat' in row 0 of train of me/animals"):
        load_images("me/animals", tmp_path, held_out=False, count=1)
