"""Who may import whom: the rooms of ARCHITECTURE.md, and one client library a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.house import tree

SPARK_ROOMS = (
    "tenure.driver",
    "tenure.takeover",
    "tenure.inputs",
    "tenure.rundirs",
    "tenure.sinks",
    "tenure.cleanup.spark",
    "tenure.spark",
)
# Library -> the packages whose modules alone may import it.
CLIENTS = {
    "kazoo": ("tenure.backends.zookeeper",),
    "grpc": ("tenure.backends.etcd",),
    "kubernetes": ("tenure.backends.kubernetes",),
    "azure": ("tenure.backends.azure",),
    "google.auth": ("tenure.backends.gcs",),
    "requests": ("tenure.backends.gcs",),
    "botocore": ("tenure.backends.s3", "tenure.storage", "tenure.s3_settings"),
    "pyspark": SPARK_ROOMS,
    "py4j": SPARK_ROOMS,
    "deltalake": ("tenure.sinks",),
    "pyiceberg": ("tenure.sinks.iceberg",),
    "confluent_kafka": ("tenure.sinks.kafka",),
    "pymysql": ("tenure.sinks.mysql",),
    "psycopg": ("tenure.sinks", "tenure.backends.postgres", "tenure.libpq"),
}
# Types of these may be named anywhere, under TYPE_CHECKING: a pipeline is written against Spark's DataFrame.
TYPES_ANYWHERE = {"pyspark"}
BACKENDS = "tenure.backends"
# What a backend may import of Tenure; that it may import itself goes without saying.
BACKEND_BASE = (
    "tenure.backends.buckets",
    "tenure.backends.shared",
    "tenure.coordination",
    "tenure.durations",
    "tenure.errors",
    "tenure.clock",
    "tenure.retry",
    "tenure.event",
    "tenure.events",
    "tenure.file_locks",
    "tenure.s3_settings",
    "tenure.libpq",
    "tenure.wording",
)


def is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("lint-imports")
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    return subprocess.run(
        [command, "--no-cache"], cwd=root, env=environment, capture_output=True, text=True, check=False
    )


def test_the_rooms_hold() -> None:
    run = lint_imports(tree.ROOT)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("client", CLIENTS.items(), ids=list(CLIENTS))
def test_one_client_library_a_folder(client: tuple[str, Sequence[str]]) -> None:
    library, rooms = client
    wrong = [
        f"{module}:{line} imports {name}"
        for module in tree.product()
        if not any(is_in(module.name, room) for room in rooms)
        for name, line in tree.imports(module, with_types=library not in TYPES_ANYWHERE)
        if is_in(name, library)
    ]
    assert not wrong, f"{library} belongs to {', '.join(rooms)} only"


def backend_of(name: str) -> str:
    """`tenure.backends.etcd.watch` -> `tenure.backends.etcd`."""
    return ".".join(name.split(".")[:3])


def test_a_backend_imports_the_contract_and_no_other_backend() -> None:
    wrong = [
        f"{module}:{line} imports {name}"
        for module in tree.product()
        if module.name.startswith(BACKENDS + ".") and module.name != f"{BACKENDS}.registry"
        for name, line in tree.imports(module, with_types=True)
        if is_in(name, "tenure")
        and not any(is_in(name, base) for base in BACKEND_BASE)
        and not is_in(name, backend_of(module.name))
    ]
    assert not wrong


def test_only_the_opening_and_the_warden_know_backends() -> None:
    may = (BACKENDS, "tenure.opening", "tenure.warden")
    wrong = [
        f"{module}:{line} imports {name}"
        for module in tree.product()
        if not any(is_in(module.name, package) for package in may)
        for name, line in tree.imports(module, with_types=True)
        if is_in(name, BACKENDS)
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("agent/probes.py", "from tenure.driver import stream", "The rooms of ARCHITECTURE.md"),
        ("pipelines/pipeline.py", "from tenure.takeover import mirror", "The rooms of ARCHITECTURE.md"),
        ("sinks/delta/schema.py", "from tenure.sinks.delta import log", "No circles within a room"),
        ("backends/sqlite/rows.py", "from tenure.backends.sqlite import store", "No circles within a room"),
        ("agent/member.py", "import kazoo", "One client library a folder"),
        ("clock.py", "from tests.kit.clock import ManualClock", "The product knows no tests"),
    ],
)
def test_a_line_that_breaks_a_contract_is_seen(tmp_path: Path, module: str, line: str, contract: str) -> None:
    shutil.copytree(tree.ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(tree.ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "src" / "tenure" / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    run = lint_imports(tmp_path)
    assert run.returncode == 1
    assert f"{contract} BROKEN" in run.stdout
