"""Datasets by name: which rows are read, and the error when that fails."""

import os

import pytest

from gradsurgery.lab.errors import UserError
from gradsurgery.paper.data.holdout import HELD_OUT_ROWS
from gradsurgery.paper.data.hub import ColumnStream, load
from tests.paper.data.text_datasets import write_dataset


def test_leading_rows_are_held_out_without_a_test_split(tmp_path):
    data_dir = write_dataset(tmp_path / "data" / "crawl", train=map(str, range(HELD_OUT_ROWS + 5)))
    assert list(ColumnStream("crawl", "text", data_dir)) == [str(HELD_OUT_ROWS + i) for i in range(5)]
    assert list(ColumnStream("crawl", "text", data_dir, limit=2)) == [str(HELD_OUT_ROWS + i) for i in range(2)]
    assert list(ColumnStream("crawl", "text", data_dir, held_out=True)) == [str(i) for i in range(HELD_OUT_ROWS)]
    assert list(ColumnStream("crawl", "text", data_dir, held_out=True, limit=3)) == ["0", "1", "2"]


def test_test_split_is_held_out_before_validation(tmp_path):
    data_dir = write_dataset(tmp_path / "data" / "news", train=["a"], validation=["b"])
    assert list(ColumnStream("news", "text", data_dir, held_out=True)) == ["b"]
    write_dataset(tmp_path / "data" / "news", test=["c"])
    assert list(ColumnStream("news", "text", data_dir, held_out=True)) == ["c"]
    assert list(ColumnStream("news", "text", data_dir)) == ["a"]


def test_spread_rows_are_evenly_spaced_in_the_training_rows(tmp_path):
    data_dir = write_dataset(tmp_path / "data" / "crawl", train=map(str, range(HELD_OUT_ROWS + 10)))
    rows = list(ColumnStream("crawl", "text", data_dir, limit=3, spread=True))
    assert rows == [str(HELD_OUT_ROWS + i) for i in (0, 3, 6)]


def test_key_changes_with_file_size_alone(tmp_path, cache):
    data_dir = write_dataset(tmp_path / "data" / "news", train=["old"], test=["x"])
    file = data_dir / "news" / "train.jsonl"
    before, time = ColumnStream("news", "text", data_dir).key, file.stat().st_mtime_ns
    write_dataset(data_dir / "news", train=["newer"])
    os.utime(file, ns=(time, time))
    assert ColumnStream("news", "text", data_dir).key != before


def test_folder_name_without_a_data_folder(monkeypatch):
    monkeypatch.setenv("GRADSURGERY_DATA", "")
    with pytest.raises(UserError, match="reuters is not on the hub: give the folder that contains it with --data-dir"):
        ColumnStream("reuters", "text")


def test_data_folder_that_does_not_exist(tmp_path):
    with pytest.raises(UserError, match=r"the data folder .*/nowhere does not exist"):
        load("ylecun/mnist", "train", ["image"], tmp_path / "nowhere")


def test_data_folder_without_the_dataset(tmp_path):
    with pytest.raises(UserError, match="has no subfolder mnist to stand in for ylecun/mnist"):
        load("ylecun/mnist", "train", ["image"], tmp_path)
    with pytest.raises(UserError, match="has no subfolder rcv1 to stand in for rcv1"):
        ColumnStream("rcv1", "text", tmp_path)


def test_missing_columns(tmp_path):
    data_dir = write_dataset(tmp_path / "data" / "news", train=["old"])
    with pytest.raises(UserError, match="must have the columns text, label; got text"):
        load("news", "train", ["text", "label"], data_dir)
    with pytest.raises(UserError, match="must have the column body; got text"):
        next(iter(ColumnStream("news", "body", data_dir, held_out=True)))


def test_missing_value(tmp_path):
    data_dir = write_dataset(tmp_path / "data" / "news", train=["first", None], test=["x"])
    with pytest.raises(UserError, match=r"row 1 of train in .*news has no text"):
        list(ColumnStream("news", "text", data_dir))


def test_value_of_another_type(tmp_path):
    data_dir = write_dataset(tmp_path / "data" / "news", train=[5], test=["x"])
    with pytest.raises(UserError, match=r"the text in row 0 of train in .*news must be a str; got 5"):
        list(ColumnStream("news", "text", data_dir))


def test_no_rows(tmp_path):
    data_dir = write_dataset(tmp_path / "data" / "news", train=[], test=["x"])
    with pytest.raises(UserError, match=r"train of .*news has no rows"):
        list(ColumnStream("news", "text", data_dir))


def test_no_rows_left_to_train_on(tmp_path):
    data_dir = write_dataset(tmp_path / "data" / "news", train=["x"] * 3)
    message = r"news has no test split, so its first 2000 rows are held out, and no rows are left to train on"
    with pytest.raises(UserError, match=message):
        list(ColumnStream("news", "text", data_dir))


def test_unreadable_file(tmp_path):
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train.csv").write_bytes(b"")
    with pytest.raises(UserError, match=r"could not load train of .*mnist: ") as raised:
        load("ylecun/mnist", "train", ["image", "label"], tmp_path)
    assert "\n" not in str(raised.value)
    assert "--data-dir" not in str(raised.value), "it is a local copy already"


def test_folder_without_files(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"could not load the training rows of .*empty: .* any data files"):
        ColumnStream("empty", "text", tmp_path)


def test_unreachable_hub(monkeypatch):
    monkeypatch.delenv("GRADSURGERY_DATA", raising=False)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"could not load train of nobody/nothing: .*; a local copy .* --data-dir"):
        load("nobody/nothing", "train", ["text"])
