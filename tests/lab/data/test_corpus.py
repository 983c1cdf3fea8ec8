"""Text packed into windows: what is where, and that disk and memory agree."""

import json
import os
import threading

import numpy as np
import pytest

from gradsurgery.lab.data.cache import cached_folder
from gradsurgery.lab.data.holdout import HELD_OUT_ROWS
from gradsurgery.lab.data.hub import ColumnStream
from gradsurgery.lab.data.text.corpus import Corpus, pack, pack_on_disk
from gradsurgery.lab.errors import UserError


def written(folder, **splits):
    """A dataset of JSON lines with a column text."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, texts in splits.items():
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (folder / f"{split}.jsonl").write_text(lines, "utf-8")
    return folder.parent


def test_every_byte_is_predicted_once():
    texts = ["alpha", "βeta", "", "gamma delta"]
    data = pack(texts)
    assert bytes(data) == "alpha\0βeta\0\0gamma delta\0".encode()
    corpus = Corpus(data, length=4)
    windows = corpus[np.arange(len(corpus))]
    assert windows.shape == (len(corpus), 5)
    np.testing.assert_array_equal(windows[:, 1:].ravel(), data[1 : 1 + 4 * len(corpus)])
    np.testing.assert_array_equal(windows[:, 0], data[: 4 * len(corpus) : 4])


def test_windows_keep_the_shape_of_their_indices():
    corpus = Corpus(pack(["a" * 100]), length=9)
    assert corpus[np.zeros((2, 3), int)].shape == (2, 3, 10)


@pytest.mark.parametrize("count", [1, 3, 11, 30])
def test_a_sample_spreads_over_the_corpus(count):
    corpus = Corpus(np.arange(111, dtype=np.uint8), length=10)
    found = [int(window[0]) // 10 for window in corpus.evenly_spaced(count)]
    assert len(found) == count
    assert found[0] == 0
    assert len(set(found)) == min(count, 11)


def test_a_text_shorter_than_a_window_gets_one_sentence():
    with pytest.raises(UserError, match="news must be longer than one window of 8 bytes, but has 3"):
        Corpus(pack(["ab"]), length=8, name="news")


def test_disk_and_memory_agree_and_the_file_is_made_once(tmp_path, cache):
    texts = [f"document {i} äöü" for i in range(3000)]
    data_dir = written(tmp_path / "data" / "c4", train=texts, validation=["held", "out"])
    stream = ColumnStream("allenai/c4:en", "text", data_dir)
    np.testing.assert_array_equal(pack_on_disk(stream), pack(texts))
    (folder,) = (path for path in cache.iterdir() if path.is_dir())
    before = (folder / "bytes").stat().st_mtime_ns
    assert isinstance(pack_on_disk(ColumnStream("allenai/c4:en", "text", data_dir)), np.memmap)
    assert (folder / "bytes").stat().st_mtime_ns == before
    assert bytes(pack_on_disk(ColumnStream("c4", "text", data_dir, held_out=True))) == b"held\0out\0"
    assert bytes(pack_on_disk(ColumnStream("c4", "text", data_dir, limit=1))) == "document 0 äöü\0".encode()


def test_changed_data_is_packed_anew(tmp_path, cache):
    data_dir = written(tmp_path / "data" / "news", train=["old"], test=["x"])
    assert bytes(pack_on_disk(ColumnStream("news", "text", data_dir))) == b"old\0"
    written(tmp_path / "data" / "news", train=["newer"], test=["x"])
    assert bytes(pack_on_disk(ColumnStream("news", "text", data_dir))) == b"newer\0"


def test_with_training_data_alone_the_first_rows_are_held_out(tmp_path):
    data_dir = written(tmp_path / "data" / "crawl", train=map(str, range(HELD_OUT_ROWS + 5)))
    assert list(ColumnStream("crawl", "text", data_dir)) == [str(HELD_OUT_ROWS + i) for i in range(5)]
    assert list(ColumnStream("crawl", "text", data_dir, limit=2)) == [str(HELD_OUT_ROWS + i) for i in range(2)]
    assert list(ColumnStream("crawl", "text", data_dir, held_out=True)) == [str(i) for i in range(HELD_OUT_ROWS)]
    assert list(ColumnStream("crawl", "text", data_dir, held_out=True, limit=3)) == ["0", "1", "2"]


def test_rows_are_spread_over_what_is_trained_on(tmp_path):
    data_dir = written(tmp_path / "data" / "crawl", train=map(str, range(HELD_OUT_ROWS + 10)))
    found = list(ColumnStream("crawl", "text", data_dir, limit=3, spread=True))
    assert found == [str(HELD_OUT_ROWS + i) for i in (0, 3, 6)]


def test_a_row_without_text_gets_one_sentence(tmp_path):
    data_dir = written(tmp_path / "data" / "news", train=["first", None], test=["x"])
    with pytest.raises(UserError, match=r"row 1 of train in .*news has no text"):
        list(ColumnStream("news", "text", data_dir))


def test_a_name_that_is_in_no_hub_is_asked_for_at_once(monkeypatch):
    monkeypatch.setenv("GRADSURGERY_DATA", "")
    with pytest.raises(UserError, match="reuters is not on the hub: give the folder that contains it with --data-dir"):
        ColumnStream("reuters", "text")


def test_a_copy_of_other_size_with_the_same_time_is_another_dataset(tmp_path, cache):
    data_dir = written(tmp_path / "data" / "news", train=["old"], test=["x"])
    file = data_dir / "news" / "train.jsonl"
    before, time = ColumnStream("news", "text", data_dir).key, file.stat().st_mtime_ns
    written(data_dir / "news", train=["newer"])
    os.utime(file, ns=(time, time))
    assert ColumnStream("news", "text", data_dir).key != before


def test_a_dataset_without_the_column_or_not_there_gets_one_sentence(tmp_path):
    data_dir = written(tmp_path / "data" / "news", train=["old"])
    with pytest.raises(UserError, match="must have the columns body, but has text"):
        next(iter(ColumnStream("news", "body", data_dir, held_out=True)))
    with pytest.raises(UserError, match="has no subfolder rcv1 to stand in for rcv1"):
        ColumnStream("rcv1", "text", data_dir)
    (data_dir / "empty").mkdir()
    with pytest.raises(UserError, match=r"could not load the training rows of .*--data-dir"):
        ColumnStream("empty", "text", data_dir)


def test_what_was_interrupted_is_begun_anew(cache):
    def broken(folder):
        (folder / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_folder("key", broken)
    folder = cached_folder("key", lambda folder: (folder / "whole").write_text("whole"))
    assert [path.name for path in folder.iterdir()] == ["whole"]


def test_who_wants_what_is_being_made_waits_for_it(cache):
    made, begun, go_on = [], threading.Event(), threading.Event()

    def write(folder):
        made.append(folder)
        begun.set()
        assert go_on.wait(10)
        (folder / "file").write_text("x")

    first, second = (threading.Thread(target=cached_folder, args=("key", write)) for _ in range(2))
    first.start()
    assert begun.wait(10)
    second.start()
    second.join(0.2)
    assert second.is_alive()
    go_on.set()
    first.join()
    second.join()
    assert len(made) == 1
