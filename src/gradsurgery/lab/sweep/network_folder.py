"""Network file systems, on which SQLite is safe for one machine at a time.

The store uses SQLite's write-ahead log, whose index is memory that all processes must share. Processes on two machines
do not share it, and would damage the file. Only the file system can be detected, not which machines use it.
"""

import os
from pathlib import Path

_MOUNTS = Path("/proc/mounts")
_NETWORK = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.juicefs"),
    *("fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "smb3", "smbfs"),
    *("virtiofs", "wekafs"),
}


def network_file_system(folder: Path) -> str | None:
    """The type of the network file system that a folder is on, such as ``nfs4``; None if it is local or unknown.

    The folder need not exist yet.
    """
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:  # not Linux
        return None
    path, longest, kind = os.path.realpath(folder), "", None
    for line in lines:
        _, mount, mount_kind, *_ = line.split(" ")
        mount = mount.replace("\\040", " ")
        inside = path == mount or path.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(longest):  # of several mounts at one place, the last one is visible
            longest, kind = mount, mount_kind
    return kind if kind in _NETWORK else None
