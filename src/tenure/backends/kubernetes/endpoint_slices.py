"""A published address as an EndpointSlice of a Service without selector has it (`discovery.k8s.io/v1`).

Promise: pure. A slice says in its labels and annotations to which store and scope it belongs, and its epoch, a number
that only grows. `obstacle` says why a slice may not be replaced. A replacement keeps the labels and annotations of
others.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

from tenure.backends.kubernetes.leases import PROGRAM, STORE, former_store, marked
from tenure.coordination.records import Scope

SERVICE: Final = "kubernetes.io/service-name"
MANAGER: Final = "endpointslice.kubernetes.io/managed-by"
SCOPE: Final = "tenure.scope"
EPOCH: Final = "tenure.epoch"
PORT: Final = "probes"
"""The name of the port. The Service's port has the same name."""

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Publication:
    """An address that a scope of a store publishes under the name of a Service."""

    service: str
    store: str
    scope: Scope
    epoch: int
    address: str | None
    """None: the Service leads nowhere."""
    port: int | None
    """None: as before."""


def slice_name(service: str) -> str:
    """The name of the slice of a Service."""
    return f"{service}-{PROGRAM}"


def obstacle(found: Object, wanted: Publication) -> str | None:
    """Why a slice may not be replaced by a publication; None: it may."""
    marks = found["metadata"].get("labels") or {}
    notes = found["metadata"].get("annotations") or {}
    if marks.get(MANAGER) != PROGRAM:
        return f"its label {MANAGER} is {marks.get(MANAGER, '')!r}, not {PROGRAM!r}"
    if marks.get(SERVICE) != wanted.service:
        return f"it belongs to Service {marks.get(SERVICE, '')!r}"
    owner = (marks.get(STORE) or former_store(marks) or "", notes.get(SCOPE, ""))
    if owner != (wanted.store, wanted.scope):
        return f"it belongs to store {owner[0]!r}, scope {owner[1]!r}"
    epoch = str(notes.get(EPOCH, ""))
    if not (epoch.isascii() and epoch.isdecimal()):
        return f"its annotation {EPOCH} is {epoch!r}, which is no number"
    if int(epoch) > wanted.epoch:
        return f"it has epoch {epoch}, which is higher"
    kind = found.get("addressType")
    if wanted.address is not None and kind != _kind_of(wanted.address):
        return f"it is for addresses of kind {kind}, and {wanted.address} is none"
    return None


def shows(found: Object, wanted: Publication) -> bool:
    """Whether a slice has the publication already."""
    same = replaced(found, wanted)
    return all((found.get(part) or []) == (same.get(part) or []) for part in ("endpoints", "ports")) and all(
        (found["metadata"].get(part) or {}) == same["metadata"][part] for part in ("labels", "annotations")
    )


def new_slice(wanted: Publication) -> Object:
    """The slice of a publication with an address."""
    assert wanted.address is not None
    bare: Object = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": slice_name(wanted.service)},
        "addressType": _kind_of(wanted.address),
    }
    return replaced(bare, wanted)


def replaced(found: Object, wanted: Publication) -> Object:
    """The slice with the publication in the place of its own."""
    bare = {name: value for name, value in found["metadata"].items() if name != "managedFields"}
    kept = marked(bare, wanted.store)
    marks = {SERVICE: wanted.service, MANAGER: PROGRAM}
    notes = {SCOPE: str(wanted.scope), EPOCH: str(wanted.epoch)}
    metadata = {
        **kept,
        "labels": {**kept["labels"], **marks},
        "annotations": {**kept["annotations"], **notes},
    }
    endpoints = [] if wanted.address is None else [{"addresses": [wanted.address], "conditions": {"ready": True}}]
    ports = found.get("ports") if wanted.port is None else [{"name": PORT, "port": wanted.port, "protocol": "TCP"}]
    return {**found, "metadata": metadata, "endpoints": endpoints, "ports": ports}


def _kind_of(address: str) -> str:
    return f"IPv{ip_address(address).version}"
