"""A store of each kind, for tests that know it by its URL only; and an answer of one whose servers come and go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import pytest

from tenure.coordination.encoding import new_uid
from tenure.errors import StoreUnavailable
from tests.draw import only_if_drawn
from tests.kit.servers.seaweedfs import BUCKET, environment
from tests.kit.waiting import wait_until
from tests.support.kubernetes import member_account

Answer = TypeVar("Answer")
_LONG = "kubernetes"
"""Every commit replaces the whole scope there, so the suites of all stores take longer than on the others."""

_BY_LOOKS = "s3"
"""A wait there ends by the next look at the scope, after up to a second, and a session by looks as well."""

_LATER = tuple(pytest.param(kind, marks=pytest.mark.long) for kind in (_LONG, _BY_LOOKS))

STORES = ("sqlite", "zookeeper", "etcd", "postgres", *_LATER)

OF_MEMBERS = ("sqlite", "zookeeper", "etcd", pytest.param("postgres", marks=only_if_drawn("postgres")), *_LATER)
"""The same, for suites of whole members, which take a minute on each store."""

ONE_SERVER = (
    "sqlite",
    *(pytest.param(kind, marks=only_if_drawn(kind)) for kind in ("zookeeper", "etcd", "postgres")),
    pytest.param(_LONG, marks=pytest.mark.long),
)
"""The same, for the layers above the contract: the gate runs them on SQLite and on the server that it draws."""

long_on_servers = (
    "sqlite",
    *(pytest.param(kind, marks=pytest.mark.long) for kind in ("zookeeper", "etcd", "postgres", _LONG)),
)
"""Parameters for scenes of minutes: each run tries them on SQLite, the long tests on all."""


def new_store(request: pytest.FixtureRequest, kind: str, folder: Path) -> str:
    """The URL of an empty store: a file in `folder`, or a place of its own in the servers that tests share."""
    if kind == "sqlite":
        return f"sqlite://{folder}/store.db"
    if kind == "s3":
        server = request.getfixturevalue("seaweedfs")
        patch = pytest.MonkeyPatch()
        request.addfinalizer(patch.undo)
        for name, value in environment(server.url).items():
            patch.setenv(name, value)
        return f"s3://{BUCKET}/test-{new_uid()[:12]}"
    servers = request.getfixturevalue(kind)
    if kind == "kubernetes":
        namespace = servers.new_namespace()
        user = member_account(servers, namespace)
        return f"kubernetes://{namespace}/tenure?kubeconfig={quote(str(servers.kubeconfig(user)))}"
    if kind == "postgres":
        return str(servers.store(f"test_{new_uid()[:12]}"))
    place = f"/test-{new_uid()[:12]}"
    if kind == "etcd":
        return f"etcd://{','.join(servers.endpoints)}{place}"
    servers.create(place)
    return f"zookeeper://{servers.hosts}{place}"


def once_there(ask: Callable[[], Answer]) -> Answer:
    """What the store answers. A line that was lost while servers came and went may cost any one request: the contract
    lets a store say that it was away and nothing was sent, and the next request has a new line."""
    answers: list[Answer] = []

    def asked() -> bool:
        try:
            answers.append(ask())
        except StoreUnavailable:
            return False
        return True

    wait_until(asked, what="an answer of the store")
    return answers[0]
