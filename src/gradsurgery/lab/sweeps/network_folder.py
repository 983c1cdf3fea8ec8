"""Network file systems, on which SQLite is safe for one machine at a time.

The store uses SQLite's write-ahead log, whose index is memory that all processes must share: processes on two machines
do not, and damage the file. Which machines use a folder cannot be detected, but whether it is on a network can.
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
    """The type of the network file system that has a folder, such as ``nfs4``; None for a local or an unknown one.

    Args:
        folder: need not exist yet.
    """
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:  # not Linux
        return None
    place, best, kind = os.path.realpath(folder), "", None
    for line in lines:
        _, mount, mount_kind, *_ = line.split(" ")
        mount = mount.replace("\\040", " ")
        inside = place == mount or place.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):  # the last of equal ones hides the others
            best, kind = mount, mount_kind
    return kind if kind in _NETWORK else None
