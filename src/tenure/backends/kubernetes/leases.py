"""A session as a Lease has it (`coordination.k8s.io/v1`).

Promise: pure. A Lease without a holder has ended, as in the field; an ended Lease never gets a holder again. The time
in it is for people to read, and decides nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from tenure.backends.shared.scope_state import packed, unpacked
from tenure.coordination.records import Record, Scope, SessionId
from tenure.errors import UsageError

STORE: Final = "tenure.store"
"""The label of every object of a store. It is a key of our own: tools take objects with common keys for theirs. Argo CD
removes each object whose `app.kubernetes.io/instance` names an application that does not have the object."""
SCOPE: Final = "tenure.scope"
"""The label of a Lease with the checksum of its only scope, so that clients follow the Leases of their own scopes."""
_NO_SCOPE: Final = "none"
_SEVERAL: Final = "several"
_SPARED: Final = {
    "argocd.argoproj.io/sync-options": "Prune=false",
    "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
}
"""Annotations for Argo CD, should it track the objects by other means."""
_SCOPES: Final = "tenure.scopes"
_TTL: Final = "tenure.ttl-ms"
_AMENDED: Final = "tenure.amended"
_HOLDER_MOST: Final = 250

Object = dict[str, Any]


def selector(store: str) -> str:
    """The label selector of the objects of a store."""
    return f"{STORE}={store}"


def selector_of(store: str, scopes: Iterable[Scope]) -> str:
    """The label selector of the Leases of these scopes, and of those with no scope or several: somebody has to end the
    sessions whose owner died before its first record."""
    values = sorted({_NO_SCOPE, _SEVERAL, *map(_checksum, scopes)})
    return f"{selector(store)},{SCOPE} in ({','.join(values)})"


def marked(metadata: Mapping[str, Any], store: str) -> Object:
    """The metadata of an object of a store with the marks of the store. Labels that others add, and annotations that
    they change, are kept."""
    marks, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return {**metadata, "labels": {**marks, STORE: store}, "annotations": {**_SPARED, **notes}}


def labelled(lease: Object, store: str) -> Object:
    """The Lease with the labels of its store and of its scope."""
    scopes, metadata = scopes_of(lease), marked(lease["metadata"], store)
    label = _NO_SCOPE if not scopes else _SEVERAL if len(scopes) > 1 else _checksum(scopes[0])
    return {**lease, "metadata": {**metadata, "labels": {**metadata["labels"], SCOPE: label}}}


def new_lease(store: str, session: SessionId, *, ttl: timedelta, holder: str, now: datetime) -> Object:
    """The Lease of a new session. `holder`: what the session is for; empty: the session's name."""
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": f"{store}.{session}", "annotations": {_TTL: str(ttl // timedelta(milliseconds=1))}},
        "spec": {
            "holderIdentity": holder[:_HOLDER_MOST] or f"session {session}",
            "leaseDurationSeconds": max(1, math.ceil(ttl.total_seconds())),
            "acquireTime": _micro_time(now),
            "renewTime": _micro_time(now),
        },
    }
    return labelled(lease, store)


def session_of(lease: Object, store: str) -> SessionId | None:
    """The session of a Lease that has the label of the store, or that a scope of the store names; None: by its name,
    the Lease is not one of this store."""
    name, _, session = str(lease["metadata"]["name"]).partition(".")
    return SessionId(session) if name == store and session else None


def renewed(lease: Object, *, now: datetime) -> Object:
    """The Lease after a renewal."""
    return _with(lease, spec={**lease["spec"], "renewTime": _micro_time(now)})


def with_scope(lease: Object, scope: Scope) -> Object:
    """The Lease of a session that may own records in one more scope."""
    return _annotated(lease, _SCOPES, json.dumps(sorted({*scopes_of(lease), scope})))


def with_amended(lease: Object, scope: Scope, record: Record, value: bytes) -> Object:
    """The Lease with the new value of a record of the session. It is of this version of the record: should the record
    be made anew, the amended value does not count."""
    amended = {name: dict(values) for name, values in _amended(lease).items()}
    amended.setdefault(str(scope), {})[str(record.key)] = {"version": record.version, **packed(value)}
    return _annotated(lease, _AMENDED, json.dumps(amended, sort_keys=True))


def as_amended(lease: Object, scope: Scope, record: Record) -> Record:
    """The record of the session, with its new value if it was amended."""
    found = _amended(lease).get(str(scope), {}).get(str(record.key))
    if isinstance(found, dict) and found.get("version") == record.version:
        with suppress(ValueError):  # edited by hand
            return replace(record, value=unpacked(found))
    return record


def ended(lease: Object) -> Object:
    """The Lease of an ended session."""
    return _with(lease, spec={**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1})


def has_ended(lease: Object) -> bool:
    """Whether the session has ended."""
    return not (lease.get("spec") or {}).get("holderIdentity")


def ttl_s(lease: Object) -> float:
    """The time to live of the session, in seconds."""
    told = str((lease["metadata"].get("annotations") or {}).get(_TTL, ""))
    if told.isdecimal():
        return int(told) / 1000
    return float((lease.get("spec") or {}).get("leaseDurationSeconds") or 60)


def scopes_of(lease: Object) -> list[Scope]:
    """The scopes in which the session may own records."""
    try:
        return [Scope(name) for name in json.loads((lease["metadata"].get("annotations") or {}).get(_SCOPES, "[]"))]
    except (ValueError, TypeError, UsageError):
        return []  # edited by hand; the records are found by their session where their scope is followed


def _checksum(scope: Scope) -> str:
    return hashlib.sha256(scope.encode()).hexdigest()[:32]


def _amended(lease: Object) -> Mapping[str, Mapping[str, Any]]:
    try:
        found = json.loads((lease["metadata"].get("annotations") or {}).get(_AMENDED, "{}"))
    except (ValueError, TypeError):
        return {}
    ours = isinstance(found, dict) and all(isinstance(values, dict) for values in found.values())
    return found if ours else {}


def _annotated(lease: Object, name: str, value: str) -> Object:
    metadata = lease["metadata"]
    return {**lease, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), name: value}}}


def _with(lease: Object, *, spec: Mapping[str, Any]) -> Object:
    return {**lease, "spec": dict(spec)}


def _micro_time(now: datetime) -> str:
    return now.isoformat(timespec="microseconds").replace("+00:00", "Z")
