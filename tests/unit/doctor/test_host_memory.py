"""How much memory is left, from the files in which the kernel says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.doctor.host_memory import free_memory, heap_bytes

GIB = 1 << 30


def host(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def group(folder: str, *, most: int, now: int, cached: int = 0) -> dict[str, str]:
    stat = f"anon 7\ninactive_file {cached}\nactive_file 7\n"
    return {f"{folder}/memory.max": f"{most}\n", f"{folder}/memory.current": f"{now}\n", f"{folder}/memory.stat": stat}


MEMINFO = {"proc/meminfo": f"MemTotal: {16 * GIB // 1024} kB\nMemAvailable:   {8 * GIB // 1024} kB\n"}
GROUPS = "sys/fs/cgroup"


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, None),
        (MEMINFO, 8 * GIB),
        # Below a limit of a group above, and in a group without a limit.
        (
            MEMINFO
            | {"proc/self/cgroup": "0::/pods/mine\n", f"{GROUPS}/pods/mine/memory.max": "max\n"}
            | group(f"{GROUPS}/pods", most=3 * GIB, now=GIB),
            2 * GIB,
        ),
        # In a container, whose group is the root that it sees; it has read large files.
        (MEMINFO | {"proc/self/cgroup": "0::/\n"} | group(GROUPS, most=3 * GIB, now=2 * GIB, cached=GIB), 2 * GIB),
        # A limit that lets more than there is.
        (MEMINFO | {"proc/self/cgroup": "0::/\n"} | group(GROUPS, most=64 * GIB, now=0), 8 * GIB),
    ],
)
def test_the_least_of_host_and_groups(tmp_path: Path, files: dict[str, str], free: int | None) -> None:
    assert free_memory(host(tmp_path, files)) == free


def test_this_host_says_it() -> None:
    assert (free_memory() or 0) > 0


@pytest.mark.parametrize(
    ("size", "found"),
    [("4g", 4 * GIB), ("512m", GIB // 2), ("512MB", GIB // 2), ("1024", GIB), ("lots", None), ("", None)],
)
def test_sizes_as_spark_writes_them(size: str, found: int | None) -> None:
    assert heap_bytes(size) == found
