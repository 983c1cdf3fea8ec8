"""Small datasets in the columns of the real ones."""

import jax
import numpy as np
import pytest

from tests.paper.data.image_files import encode_image


@pytest.fixture(autouse=True)
def one_device(monkeypatch):
    """Train on one device: programs for eight take several times as long to compile."""
    first = jax.devices()[:1]
    monkeypatch.setattr(jax, "devices", lambda: first)


@pytest.fixture
def unoptimised():
    """Compile faster: for tests that compile a whole model and hardly train it."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Give the test an empty cache of ``datasets``; returns our folder in it."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache" / "gradsurgery"


@pytest.fixture(scope="session")
def imagenet(tmp_path_factory):
    """A folder with a few images in the columns and splits of ImageNet and CIFAR-10.

    Images of ImageNet differ in size, and one is greyscale. Its training images are ramps, all others plain colours.
    """
    import datasets

    folder, generator = tmp_path_factory.mktemp("data"), np.random.default_rng(0)

    def write(name, split, column, images, labels, classes):
        features = datasets.Features({column: datasets.Image(), "label": datasets.ClassLabel(num_classes=classes)})
        rows = datasets.Dataset.from_dict({column: images, "label": labels}, features=features)
        (folder / name).mkdir(exist_ok=True)
        rows.to_parquet(folder / name / f"{split}.parquet")

    for split, count in (("train", 12), ("validation", 8), ("test", 2)):
        sizes = generator.integers(40, 90, (count, 2))
        plain = [np.full((*size, 3), 20 * number, np.uint8) for number, size in enumerate(sizes)]
        ramps = [pixels + np.arange(pixels.shape[1], dtype=np.uint8)[:, None] // 3 for pixels in plain]
        shown = ramps if split == "train" else plain
        images = [encode_image(pixels, "L" if number == 3 else "RGB") for number, pixels in enumerate(shown)]
        labels = [-1 if split == "test" else min(100 * number, 999) for number in range(count)]
        write("imagenet-1k", split, "image", images, labels, 1000)
    for split in ("train", "test"):
        small = [encode_image(np.full((32, 32, 3), 20 * number, np.uint8), codec="PNG") for number in range(8)]
        write("cifar10", split, "img", small, list(range(8)), 10)
    return folder
