"""Who may import whom: the layers of ARCHITECTURE.md, and one client library a folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house import tree

# Library -> the package whose modules alone may import it.
CLIENTS = {
    "kazoo": "tenure.backends.zookeeper",
    "grpc": "tenure.backends.etcd",
    "kubernetes": "tenure.backends.kubernetes",
    "pyspark": "tenure.spark",
    "py4j": "tenure.spark",
    "deltalake": "tenure.spark.sinks",
    "psycopg": "tenure.spark.sinks",
}
# Types of these may be named anywhere, under TYPE_CHECKING: a pipeline is written against Spark's DataFrame.
TYPES_ANYWHERE = {"pyspark"}
BACKENDS = "tenure.backends"
# What a backend may import of Tenure; that it may import itself goes without saying.
BACKEND_BASE = ("tenure.coordination", "tenure.errors", "tenure.clock", "tenure.retry", "tenure.events")


def is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def test_the_layers_hold() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([command, "--no-cache"], cwd=tree.ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("library", CLIENTS)
def test_one_client_library_a_folder(library: str) -> None:
    wrong = [
        f"{module}:{line} imports {name}"
        for module in tree.product()
        if not is_in(module.name, CLIENTS[library])
        for name, line in tree.imports(module, with_types=library not in TYPES_ANYWHERE)
        if is_in(name, library)
    ]
    assert not wrong, f"{library} belongs to {CLIENTS[library]} only"


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


def test_only_the_assembly_knows_backends() -> None:
    may = (BACKENDS, "tenure.assembly", "tenure.testing")
    wrong = [
        f"{module}:{line} imports {name}"
        for module in tree.product()
        if not any(is_in(module.name, package) for package in may)
        for name, line in tree.imports(module, with_types=True)
        if is_in(name, BACKENDS)
    ]
    assert not wrong
