"""Sets of images that need no download, and digits laid over them."""

import numpy as np
import pytest

from gradsurgery.lab.data.images.arrays import ImageArrays
from gradsurgery.lab.data.images.builtin import digits, photographs
from gradsurgery.lab.data.images.overlay import overlay, place_digits
from gradsurgery.lab.data.images.source import load_images
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.problems.cifar10mnist_samples import main, sheet


def test_what_is_held_out_is_in_no_training_set():
    for images in (digits, photographs):
        train, test = ({one.tobytes() for one in images(held_out).pixels} for held_out in (False, True))
        assert len(train & test) <= 0.02 * len(test)  # plain sky looks alike
        assert len(train) > 3 * len(test) > 0


def test_classes_can_be_chosen_and_are_counted_from_zero():
    found = load_images("digits", None, held_out=False, count=200, classes="5-9")
    assert (len(found), found.classes, set(found.labels)) == (200, 5, set(range(5)))
    everything = load_images("digits", None, held_out=False, count=2000)
    np.testing.assert_array_equal(found.pixels[0], everything.pixels[everything.labels >= 5][0])


@pytest.mark.parametrize("classes", ["5", "5-", "9-5", "0-10", "a-b"])
def test_classes_that_make_no_sense_get_one_sentence(classes):
    with pytest.raises(UserError, match="classes must be all or a range within 0-9, but got"):
        load_images("digits", None, held_out=False, count=10, classes=classes)


def test_each_background_has_one_digit_for_good():
    backgrounds, ink = photographs(False)[:50], digits(False)
    once, again = place_digits(backgrounds, ink, held_out=False), place_digits(backgrounds, ink, held_out=False)
    np.testing.assert_array_equal(once.pixels, again.pixels)
    np.testing.assert_array_equal(once.labels, again.labels)
    assert not np.array_equal(once.labels, place_digits(backgrounds, ink, held_out=True).labels)
    assert len(set(once.labels)) == 10


def test_a_digit_lies_where_it_can_be_seen_whole():
    black = ImageArrays(np.zeros((30, 32, 32, 3), np.uint8), np.zeros(30, np.int32), 1)
    bright = ImageArrays(np.full((1, 28, 28, 1), 255, np.uint8), np.array([7], np.int32), 10)
    found = place_digits(black, bright, held_out=False)
    assert set(found.labels) == {7}
    np.testing.assert_array_equal(found.pixels.sum((1, 2, 3)), 28 * 28 * 255)
    corners = {(int(one.any(1).argmax()), int(one.any(0).argmax())) for one in found.pixels[..., 0]}
    assert len(corners) > 5


def test_ink_covers_as_much_as_it_is_bright():
    background = np.full((1, 1, 3, 3), 0.5, np.float32)
    ink = np.array([0, 51, 255], np.uint8).reshape(1, 1, 3, 1)
    np.testing.assert_allclose(overlay(background, ink)[0, 0, :, 0], [0.5, 0.8 * 0.5 + 0.2, 1.0], rtol=1e-6)


def test_a_sheet_shows_the_first_images_with_their_labels(tmp_path, monkeypatch):
    pictures = photographs(False)[:12]
    laid = place_digits(pictures, digits(False), held_out=False)
    figure = sheet(pictures, laid, rows=2, columns=5)
    titles = [f"{label}, {digit}" for label, digit in zip(pictures.labels, laid.labels, strict=True)]
    assert [panel.get_title() for panel in figure.axes] == titles[:10]
    monkeypatch.setattr("sys.argv", ["sheet", str(tmp_path / "sheet.png")])
    main()
    assert (tmp_path / "sheet.png").stat().st_size > 10_000
    monkeypatch.setattr("sys.argv", ["sheet", "sheet.png", "--scale", "huge"])
    with pytest.raises(SystemExit, match="2"):
        main()
