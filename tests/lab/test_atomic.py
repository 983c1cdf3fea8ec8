"""Files of a report are replaced as a whole, and an error names the file."""

import errno
import shutil
from pathlib import Path

import pytest

from gradsurgery import lab
from gradsurgery.lab.atomic import write_atomically
from tests.lab.analysis.synthetic_runs import run


@pytest.fixture
def fill_disk(monkeypatch):
    """A function that makes writing fail half way, as on a full disk, for files whose names contain a text."""

    def fill(text):
        write_bytes = Path.write_bytes

        def write(path, content):
            if text not in path.name:
                return write_bytes(path, content)
            write_bytes(path, content[: len(content) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", write)

    return fill


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_file_is_replaced(tmp_path):
    for content in (b"old", b"new"):
        write_atomically(tmp_path / "page.html", content)
    assert files(tmp_path) == {"page.html": b"new"}


def test_a_full_disk_leaves_the_old_file_and_is_reported_with_its_name(tmp_path, fill_disk):
    path = tmp_path / "page.html"
    write_atomically(path, b"old")
    fill_disk("page.html")
    with pytest.raises(OSError, match=r"^cannot write .*page\.html: No space left on device$") as raised:
        write_atomically(path, b"new content")
    assert str(path) in str(raised.value)
    assert files(tmp_path) == {"page.html": b"old"}


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OSError, match=r"^cannot write .*page\.html: (Not a directory|File exists)$"):
        write_atomically(tmp_path / "file" / "page.html", b"new")


@pytest.fixture(scope="module")
def old_report(tmp_path_factory):
    return lab.report([run(), run(lam=1.0)], tmp_path_factory.mktemp("report"), title="old").parent


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report.html", "mixed-loss.png"])
def test_a_disk_that_fills_up_leaves_a_whole_report(tmp_path, old_report, fill_disk, name):
    shutil.copytree(old_report, tmp_path, dirs_exist_ok=True)
    before = files(tmp_path)
    fill_disk(name)
    with pytest.raises(OSError, match=f"cannot write .*{name}: No space left"):
        lab.report([run("mixed"), run("mixed", lam=1.0)], tmp_path, title="new")
    after = files(tmp_path)
    assert after.keys() == before.keys(), "no temporary file is left"
    assert after["report.html"] == before["report.html"]
    assert after["figures/fronts.png"] != before["figures/fronts.png"], "figures are written before the page"
    assert all(content.rstrip().endswith(b"%%EOF") for path, content in after.items() if path.endswith(".pdf"))
