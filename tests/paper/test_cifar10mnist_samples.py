import pytest

from gradsurgery.paper.cifar10mnist.samples import draw_samples, main
from gradsurgery.paper.data.images.builtin import digits, photographs
from gradsurgery.paper.data.images.overlay import place_digits


def test_figure_shows_the_first_images_with_both_labels(tmp_path, monkeypatch):
    pictures = photographs(False)[:12]
    layers = place_digits(pictures, digits(False), held_out=False)
    figure = draw_samples(pictures, layers, rows=2, columns=5)
    titles = [f"{label}, {digit}" for label, digit in zip(pictures.labels, layers.labels, strict=True)]
    assert [panel.get_title() for panel in figure.axes] == titles[:10]
    monkeypatch.setattr("sys.argv", ["samples", str(tmp_path / "samples.png")])
    main()
    assert (tmp_path / "samples.png").stat().st_size > 10_000


def test_unknown_scale(monkeypatch):
    monkeypatch.setattr("sys.argv", ["samples", "samples.png", "--scale", "huge"])
    with pytest.raises(SystemExit, match="2"):
        main()
