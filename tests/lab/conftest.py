import numpy as np
import pytest

from gradsurgery.lab.store import Store
from tests.lab.data.image_files import encode_image


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of ``datasets`` for one test alone; what is kept in it lies in this folder."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache" / "gradsurgery"


@pytest.fixture(scope="session")
def imagenet(tmp_path_factory):
    """A folder with ImageNet and CIFAR-10 by their columns and splits: a few images.

    Those of ImageNet are of different sizes, and one is grey; they are ramps to train on, else of plain colours.
    """
    import datasets

    folder, chance = tmp_path_factory.mktemp("data"), np.random.default_rng(0)

    def write(name, split, column, images, labels, classes):
        features = datasets.Features({column: datasets.Image(), "label": datasets.ClassLabel(num_classes=classes)})
        rows = datasets.Dataset.from_dict({column: images, "label": labels}, features=features)
        (folder / name).mkdir(exist_ok=True)
        rows.to_parquet(folder / name / f"{split}.parquet")

    for split, count in (("train", 12), ("validation", 8), ("test", 2)):
        sizes = chance.integers(40, 90, (count, 2))
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


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path):
    with Store(path, patience=0.1) as store:
        yield store
