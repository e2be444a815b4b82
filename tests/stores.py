"""A store of each kind, for tests that know it by its URL only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.coordination.encoding import new_uid

STORES = ("sqlite", "zookeeper", "etcd")

long_on_servers = ("sqlite", *(pytest.param(kind, marks=pytest.mark.long) for kind in STORES[1:]))
"""Parameters for scenes of minutes: each run tries them on SQLite, the long tests on all."""


def new_store(request: pytest.FixtureRequest, kind: str, folder: Path) -> str:
    """The URL of an empty store: a file in `folder`, or a place of its own in the servers that tests share."""
    if kind == "sqlite":
        return f"sqlite://{folder}/store.db"
    servers = request.getfixturevalue(kind)
    place = f"/test-{new_uid()[:12]}"
    if kind == "etcd":
        return f"etcd://{','.join(servers.endpoints)}{place}"
    servers.create(place)
    return f"zookeeper://{servers.hosts}{place}"
