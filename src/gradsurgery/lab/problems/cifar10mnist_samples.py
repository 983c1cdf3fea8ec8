"""A sheet of samples of Cifar10Mnist, as in the paper's appendix.

python -m gradsurgery.lab.problems.cifar10mnist_samples samples.png --scale laptop --data-dir data
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsurgery.lab.data.images.arrays import ImageArrays
from gradsurgery.lab.data.images.overlay import overlay
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.problems import cifar10mnist


def sheet(pictures: ImageArrays, inks: ImageArrays, rows: int = 3, columns: int = 10) -> Figure:
    """The first pictures with the digits over them, and both labels."""
    figure = Figure(figsize=(columns, 1.25 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    images = np.asarray(overlay(pictures.pixels[: rows * columns] / 255, inks.pixels[: rows * columns]))
    for panel, image, label, digit in zip(panels, images, pictures.labels, inks.labels, strict=False):
        panel.imshow(image)
        panel.set_title(f"{label}, {digit}", fontsize=9)
    for panel in figure.axes:
        panel.axis("off")
    return figure


def main() -> None:
    """Draw what a scale trains on."""
    parser = argparse.ArgumentParser(description="Draw a sheet of samples of Cifar10Mnist.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--scale", default="demo")
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    try:
        settings = cifar10mnist.problem.scale(options.scale).settings
        both = cifar10mnist.pictures_and_digits(settings, options.data_dir, held_out=False)
    except UserError as error:
        parser.error(str(error))
    sheet(*both).savefig(options.path, dpi=100)


if __name__ == "__main__":
    main()
