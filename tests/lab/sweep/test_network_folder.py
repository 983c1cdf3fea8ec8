"""Network file systems are recognised by the mount table, and a sweep on one warns."""

import pytest

from gradsurgery.lab.sweep import network_folder
from gradsurgery.lab.sweep.network_folder import network_file_system
from gradsurgery.lab.sweep.resources import Resources
from gradsurgery.lab.sweep.train import train_grid
from tests.lab.sweep.recorder import Recorder
from tests.lab.sweep.toy import TOY, toy_runs


@pytest.fixture
def mounts(tmp_path, monkeypatch):
    table = tmp_path / "mounts"
    monkeypatch.setattr(network_folder, "_MOUNTS", table)
    return table


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("server:/home {} nfs4 rw 0 0\n", "nfs4"),
        ("overlay / overlay rw 0 0\nme@host: {} fuse.sshfs rw 0 0\n", "fuse.sshfs"),
        ("//server/share / cifs rw 0 0\n", "cifs"),
        ("//server/share / cifs rw 0 0\n/dev/sda1 {} ext4 rw 0 0\n", None),
        ("server:/home {} nfs rw 0 0\ntmpfs {} tmpfs rw 0 0\n", None),
        ("server:/home {}-other nfs rw 0 0\n", None),
        ("", None),
    ],
)
def test_the_file_system_is_that_of_the_innermost_mount(mounts, tmp_path, table, expected):
    mounts.write_text(table.replace("{}", str(tmp_path / "a folder").replace(" ", "\\040")))
    assert network_file_system(tmp_path / "a folder" / "runs") == expected


def test_without_a_mount_table_the_file_system_is_unknown(mounts, tmp_path):
    assert network_file_system(tmp_path) is None


def test_links_are_followed(mounts, tmp_path):
    (tmp_path / "remote").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "remote")
    mounts.write_text(f"server:/home {tmp_path}/remote nfs4 rw 0 0\n")
    assert network_file_system(tmp_path / "link" / "runs") == "nfs4"


def test_a_sweep_on_a_network_file_system_warns_once(mounts, tmp_path):
    mounts.write_text("server:/home / nfs4 rw 0 0\n")
    for expected in (1, 0):  # nothing is left to train the second time
        listener = Recorder()
        train_grid(TOY, toy_runs()[:1], folder=tmp_path / "runs", listener=listener, resources=Resources(workers=0))
        assert len(listener.warnings) == expected
        if listener.warnings:
            assert "is on a network file system (nfs4)" in listener.warnings[0]
            assert "--ray" in listener.warnings[0]
