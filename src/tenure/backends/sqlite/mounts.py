"""Refuses a database at a place where SQLite does not work: on a network file system, where its locks and its shared
memory do not hold, and at a mount of the file alone, where its log is not beside it.

Promise: the kernel names the mounts. Without /proc/self/mountinfo nothing is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tenure.errors import UsageError

MOUNTINFO = Path("/proc/self/mountinfo")
_NETWORK = re.compile(
    r"nfs4?|cifs|smb3|smbfs|9p|afs|ceph|lustre|gpfs|beegfs|orangefs|glusterfs|virtiofs|vboxsf|vmhgfs"
    r"|fuse\.(sshfs|s3fs|rclone|gcsfuse|blobfuse2?|juicefs|glusterfs|ceph(-fuse)?|goofys|mount-s3|curlftpfs|davfs2?"
    r"|vmhgfs-fuse|moosefs|mfs|lizardfs|seaweedfs|cubefs)"
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A place in the tree of files, and the type of the file system there."""

    point: Path
    file_system: str


def mount_of(path: Path, mountinfo: str) -> Mount | None:
    """The mount at the absolute `path`: the last mount at the longest mount point; None: unknown."""
    found: Mount | None = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")[0]
        if len(fields) < 5 or not kind:
            continue
        point = Path(_ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        if (path == point or point in path.parents) and (found is None or len(point.parts) >= len(found.point.parts)):
            found = Mount(point, kind)
    return found


def is_network(file_system: str) -> bool:
    """Whether the file system's bytes live on another machine."""
    return _NETWORK.fullmatch(file_system) is not None


def refuse_mount(path: Path, *, mountinfo: Path = MOUNTINFO) -> None:
    """Raises UsageError when `path` lies on a network file system, or is itself a mount point."""
    if not mountinfo.exists():
        return
    real = path.resolve()
    mount = mount_of(real, mountinfo.read_text(encoding="utf-8", errors="surrogateescape"))
    if mount is None:
        return
    if is_network(mount.file_system):
        raise UsageError(
            f"store {path} lies on the network file system {mount.file_system!r}, where SQLite's locks do not hold",
            fix="put it on a local disk, or use a store that is a server",
        )
    if mount.point == real:
        raise UsageError(
            f"store {path} is mounted as a file, and SQLite's log beside it is not the log of other members",
            fix=f"mount the directory that holds the file, at {real.parent}",
        )
