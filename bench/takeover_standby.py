"""What a standby of `bench.takeover` has paid when it is warm."""

from __future__ import annotations

from pathlib import Path

import psutil

from tenure.rundirs.run_directory import RunDirectory
from tests.kit.members import MemberProcess


def paid(standby: MemberProcess, folder: Path, *, requests: int) -> dict[str, float]:
    """Processor time of the member, its requests of a storage in S3, and the bytes on the disk below `folder` that are
    its own: in its mirrors, its rehearsals and its temporary files. A link to a file of the leader has none."""
    agent = psutil.Process(standby.pid)
    times = [process.cpu_times() for process in (agent, *agent.children(recursive=True))]
    own: dict[int, int] = {}
    others: set[int] = set()
    for path in folder.rglob("*"):
        try:
            status = path.lstat()
        except OSError:
            continue  # it went meanwhile
        if path.is_dir() or "s3" in path.relative_to(folder).parts[:1]:
            continue
        if f"-{standby.name}" in str(path) or f"/{standby.name}/" in str(path):
            own[status.st_ino] = status.st_blocks * 512
        else:
            others.add(status.st_ino)
    return {
        "cpu_s": round(sum(time.user + time.system for time in times), 1),
        "requests": requests,
        "disk_bytes": sum(size for number, size in own.items() if number not in others),
    }


def state_bytes(runs: str) -> int:
    """The bytes of RocksDB's tables in the largest of these run directories."""
    found = [0]
    for name in RunDirectory(runs).list():
        directory = RunDirectory(f"{runs}/{name}")
        found.append(sum(sum(directory.sizes(f"state/0/{partition}/SSTs").values()) for partition in range(2)))
    return max(found)
