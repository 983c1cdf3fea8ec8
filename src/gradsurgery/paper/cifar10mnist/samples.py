"""Draw samples of Cifar10Mnist, as in the paper's appendix.

python -m gradsurgery.paper.cifar10mnist.samples samples.png --scale laptop --data-dir data
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsurgery.lab import UserError
from gradsurgery.paper.cifar10mnist.problem import Settings, cifar10mnist
from gradsurgery.paper.cifar10mnist.train import pictures_and_digits
from gradsurgery.paper.data.images.arrays import ImageArrays
from gradsurgery.paper.data.images.overlay import overlay


def draw_samples(pictures: ImageArrays, layers: ImageArrays, rows: int = 3, columns: int = 10) -> Figure:
    """Draw the first pictures with their digits, and both labels above each."""
    figure = Figure(figsize=(columns, 1.25 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    images = np.asarray(overlay(pictures.pixels[: rows * columns] / 255, layers.pixels[: rows * columns]))
    for panel, image, label, digit in zip(panels, images, pictures.labels, layers.labels, strict=False):
        panel.imshow(image)
        panel.set_title(f"{label}, {digit}", fontsize=9)
    for panel in figure.axes:
        panel.axis("off")
    return figure


def main() -> None:
    """Draw training images of a scale."""
    parser = argparse.ArgumentParser(description="Draw samples of Cifar10Mnist.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--scale", default="demo")
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    try:
        settings = cifar10mnist.scale(options.scale).settings
        assert isinstance(settings, Settings)
        images = pictures_and_digits(settings, options.data_dir, held_out=False)
    except UserError as error:
        parser.error(str(error))
    draw_samples(*images).savefig(options.path, dpi=100)


if __name__ == "__main__":
    main()
