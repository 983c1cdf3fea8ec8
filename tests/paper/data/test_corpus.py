"""Text packed into byte windows, in memory and on disk."""

import numpy as np
import pytest

from gradsurgery.lab.errors import UserError
from gradsurgery.paper.data.hub import ColumnStream
from gradsurgery.paper.data.text.corpus import Corpus, pack, pack_on_disk
from tests.paper.data.text_datasets import write_dataset


def test_every_byte_is_predicted_once():
    texts = ["alpha", "βeta", "", "gamma delta"]
    data = pack(texts)
    assert bytes(data) == "alpha\0βeta\0\0gamma delta\0".encode()
    corpus = Corpus(data, length=4)
    windows = corpus[np.arange(len(corpus))]
    assert windows.shape == (len(corpus), 5)
    np.testing.assert_array_equal(windows[:, 1:].ravel(), data[1 : 1 + 4 * len(corpus)])
    np.testing.assert_array_equal(windows[:, 0], data[: 4 * len(corpus) : 4])


def test_windows_have_the_shape_of_their_indices():
    corpus = Corpus(pack(["a" * 100]), length=9)
    assert corpus[np.zeros((2, 3), int)].shape == (2, 3, 10)


@pytest.mark.parametrize("count", [1, 3, 11, 30])
def test_evenly_spaced_windows_cover_the_corpus(count):
    corpus = Corpus(np.arange(111, dtype=np.uint8), length=10)
    indices = [int(window[0]) // 10 for window in corpus.evenly_spaced(count)]
    assert len(indices) == count
    assert indices[0] == 0
    assert len(set(indices)) == min(count, 11)


def test_text_shorter_than_a_window():
    with pytest.raises(UserError, match="news must be longer than one window of 8 bytes; got 3"):
        Corpus(pack(["ab"]), length=8, name="news")


def test_file_on_disk_equals_memory_and_is_written_once(tmp_path, cache):
    texts = [f"document {i} äöü" for i in range(3000)]
    data_dir = write_dataset(tmp_path / "data" / "c4", train=texts, validation=["held", "out"])
    np.testing.assert_array_equal(pack_on_disk(ColumnStream("allenai/c4:en", "text", data_dir)), pack(texts))
    (folder,) = (path for path in cache.iterdir() if path.is_dir())
    before = (folder / "bytes").stat().st_mtime_ns
    assert isinstance(pack_on_disk(ColumnStream("allenai/c4:en", "text", data_dir)), np.memmap)
    assert (folder / "bytes").stat().st_mtime_ns == before
    assert bytes(pack_on_disk(ColumnStream("c4", "text", data_dir, held_out=True))) == b"held\0out\0"
    assert bytes(pack_on_disk(ColumnStream("c4", "text", data_dir, limit=1))) == "document 0 äöü\0".encode()


def test_changed_dataset_is_packed_again(tmp_path, cache):
    data_dir = write_dataset(tmp_path / "data" / "news", train=["old"], test=["x"])
    assert bytes(pack_on_disk(ColumnStream("news", "text", data_dir))) == b"old\0"
    write_dataset(tmp_path / "data" / "news", train=["newer"], test=["x"])
    assert bytes(pack_on_disk(ColumnStream("news", "text", data_dir))) == b"newer\0"
