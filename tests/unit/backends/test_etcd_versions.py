"""Versions of etcd with a known fault are named, with the version that has it no more."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tenure.backends.etcd import history as module
from tenure.backends.etcd.history import fault_of
from tenure.errors import StoreUnavailable
from tests.kit.servers import EtcdCluster
from tests.support.store_fixtures import EtcdRig


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("3.3.10", "may end living sessions"),
        ("3.4.23", "may end living sessions when it wakes (etcd#15247); use 3.4.31 or newer"),
        ("3.4.30", "use 3.4.31 or newer"),
        ("3.5.0", "may differ in their data"),
        ("3.5.2", "use 3.5.13 or newer"),
        ("3.5.12-rc.1+build", "may end living sessions"),
    ],
)
def test_a_version_with_a_fault_is_named(version: str, words: str) -> None:
    told = fault_of(version) or ""
    assert told.startswith(f"etcd {version} has a known fault: ")
    assert words in told
    assert "\n" not in told


@pytest.mark.parametrize("version", ["3.4.31", "3.4.45", "3.5.13", "3.5.33", "3.6.0", "4.0.0", "kine", ""])
def test_a_version_without_a_known_fault(version: str) -> None:
    assert fault_of(version) is None


@pytest.fixture
def rig(etcd: EtcdCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[EtcdRig]:
    monkeypatch.setattr(module, "_ASKED", set())
    made = EtcdRig(etcd)
    yield made
    made.close()


def test_a_session_names_the_fault_of_its_server_once(
    rig: EtcdRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    def fault(version: str) -> str:
        asked.append(version)
        return f"etcd {version} has a fault"

    monkeypatch.setattr(module, "fault_of", fault)
    with caplog.at_level(logging.WARNING):
        for client in (rig.client(), rig.client()):
            client.open_session(ttl=timedelta(seconds=5)).close()
    (version,) = asked
    assert version.split(".")[0] == "3"
    assert [record.getMessage() for record in caplog.records] == [f"etcd {version} has a fault"]


def test_a_server_that_does_not_say_its_version_is_used(rig: EtcdRig, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(self: object, endpoint: object) -> str:
        raise StoreUnavailable("a proxy")

    monkeypatch.setattr(module.History, "_status", silent)
    rig.client().open_session(ttl=timedelta(seconds=5)).close()
