"""A scope on an API server, as tests write it by a store, and as an operator edits it with kubectl."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

from tenure.backends.kubernetes import KubernetesStore
from tenure.backends.kubernetes.objects import object_name
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Key, Put, Record, Scope, Version
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import Term
from tests.support.store_fixtures import KubernetesRig

SCOPE = Scope("shop")
A, B = Key("a"), Key("b")
TTL = timedelta(seconds=10)
CLOCK = SystemClock()


def put(store: KubernetesStore, key: Key = A, value: bytes = b"first", replaces: Version | None = None) -> Version:
    return store.commit(SCOPE, guards=[], writes=[Put(key, value, replaces)]).versions[key]


def record(store: KubernetesStore, key: Key = A) -> Record:
    found = store.read(SCOPE, key)
    assert found is not None
    return found


def lead(store: KubernetesStore, keeper: SessionKeeper, member: str = "anna") -> Term:
    term = Election(store, SCOPE, member=member, clock=CLOCK).campaign(keeper, stop=threading.Event())
    assert term is not None
    return term


class Hands:
    """What an operator does to the objects with kubectl."""

    def __init__(self, rig: KubernetesRig) -> None:
        self._server = rig.server
        self._namespace = rig.place.namespace
        self._config_maps = f"/api/v1/namespaces/{self._namespace}/configmaps"
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases"
        self.map_path = f"{self._config_maps}/{object_name('tenure', SCOPE)}"

    def config_map(self) -> dict[str, Any]:
        return self._server.ask("GET", self.map_path)

    def edit(self, entry: str, text: str | None) -> None:
        self._server.ask("PATCH", self.map_path, {"data": {entry: text}})

    def delete_map(self) -> None:
        self._server.ask("DELETE", self.map_path)

    def leases(self) -> list[dict[str, Any]]:
        return list(self._server.ask("GET", self._leases)["items"])

    def end_lease(self, name: str) -> None:
        self._server.ask("PATCH", f"{self._leases}/{name}", {"spec": {"holderIdentity": ""}})

    def delete_lease(self, name: str) -> None:
        self._server.ask("DELETE", f"{self._leases}/{name}")

    def add(self, kind: str, name: str, **fields: Any) -> None:
        versions = {"ConfigMap": "v1", "Lease": "coordination.k8s.io/v1"}
        metadata = {"name": name, "namespace": self._namespace, **fields.pop("metadata", {})}
        self._server.apply({"apiVersion": versions[kind], "kind": kind, "metadata": metadata, **fields})

    def all(self) -> dict[str, dict[str, Any]]:
        found = [*self.leases(), *self._server.ask("GET", self._config_maps)["items"]]
        return {one["metadata"]["name"]: one for one in found}
