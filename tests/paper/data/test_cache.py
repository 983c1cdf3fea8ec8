import threading

import numpy as np
import pytest

from gradsurgery.paper.data.cache import cached_folder, memmap


def test_folder_is_written_once(cache):
    calls = []

    def write(folder):
        calls.append(folder)
        (folder / "file").write_text("x")

    first, second = cached_folder("key", write), cached_folder("key", write)
    assert first == second
    assert first.parent == cache
    assert len(calls) == 1
    assert cached_folder("another key", write) != first


def test_interrupted_write_starts_over(cache):
    def interrupted(folder):
        (folder / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_folder("key", interrupted)
    folder = cached_folder("key", lambda folder: (folder / "whole").write_text("whole"))
    assert [path.name for path in folder.iterdir()] == ["whole"]


def test_concurrent_callers_wait_for_the_writer(cache):
    written, started, proceed = [], threading.Event(), threading.Event()

    def write(folder):
        written.append(folder)
        started.set()
        assert proceed.wait(600)
        (folder / "file").write_text("x")

    first, second = (threading.Thread(target=cached_folder, args=("key", write)) for _ in range(2))
    first.start()
    assert started.wait(600)
    second.start()
    second.join(0.2)
    assert second.is_alive()
    proceed.set()
    first.join()
    second.join()
    assert len(written) == 1


def test_memmap_reads_files_of_any_size(tmp_path):
    np.arange(3, dtype=np.uint16).tofile(tmp_path / "numbers")
    (tmp_path / "empty").touch()
    assert memmap(tmp_path / "numbers", np.uint16).tolist() == [0, 1, 2]
    assert memmap(tmp_path / "empty", np.uint16).tolist() == []
