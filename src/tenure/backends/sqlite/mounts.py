"""Refuses a database on a network file system, where the locks and shared memory of SQLite do not work.

Promise: the kernel names the type of the file system. Without /proc/self/mountinfo nothing is refused.
"""

from __future__ import annotations

import re
from pathlib import Path

from tenure.errors import UsageError

MOUNTINFO = Path("/proc/self/mountinfo")
_NETWORK = re.compile(
    r"nfs4?|cifs|smb3|smbfs|9p|afs|ceph|lustre|gpfs|beegfs|orangefs|glusterfs"
    r"|fuse\.(sshfs|s3fs|rclone|gcsfuse|blobfuse2?|juicefs|glusterfs|ceph(-fuse)?|goofys|mount-s3|curlftpfs|davfs2?)"
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


def file_system_of(path: Path, mountinfo: str) -> str | None:
    """The file system's type at the absolute `path`: of the last mount at the longest mount point; None: unknown."""
    found: tuple[int, str] | None = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")[0]
        if len(fields) < 5 or not kind:
            continue
        point = Path(_ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        if (path == point or point in path.parents) and (found is None or len(point.parts) >= found[0]):
            found = (len(point.parts), kind)
    return None if found is None else found[1]


def is_network(file_system: str) -> bool:
    """Whether the file system's bytes live on another machine."""
    return _NETWORK.fullmatch(file_system) is not None


def refuse_network(path: Path, *, mountinfo: Path = MOUNTINFO) -> None:
    """Raises UsageError when `path` lies on a network file system."""
    if not mountinfo.exists():
        return
    file_system = file_system_of(path.resolve(), mountinfo.read_text(encoding="utf-8", errors="surrogateescape"))
    if file_system is not None and is_network(file_system):
        raise UsageError(
            f"store {path} lies on the network file system {file_system!r}, where SQLite's locks do not hold",
            fix="put it on a local disk, or use a store that is a server",
        )
