"""The examination of an etcd cluster: each of its servers, its version, its history, its clock.

Promise: only statuses and reads are sent. The rules about a full database and a history that nobody compacts are those
of `fullness.py`, which a member logs. Not promised: the clock of a server over TLS.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any, Final

import grpc

from tenure.backends.etcd.history import History, fault_of
from tenure.backends.etcd.messages import pb
from tenure.backends.etcd.rpc import Cluster, Endpoint, Rpc
from tenure.backends.shared.answering import about_servers
from tenure.coordination.examination import Grade, Remark
from tenure.coordination.records import Scope
from tenure.errors import StoreUnavailable

_ANSWERS_S: Final = 2.0
_NO_LEADER: Final = "no leader"
"""Among the errors in the status of a server."""


class EtcdExamination:
    """Of one cluster, as one client sees it."""

    local_folder = None
    has_scratch = True

    def __init__(self, cluster: Cluster, rpc: Rpc, history: History) -> None:
        self._cluster = cluster
        self._rpc = rpc
        self._history = history

    def examine(self, scope: Scope | None) -> Sequence[Remark]:
        asked = {endpoint.address: self._status(endpoint) for endpoint in self._rpc.in_turn()}
        remarks = [
            about_servers(
                "etcd",
                {
                    address: None if status is None else f"{status.header.cluster_id:x}"
                    for address, status in asked.items()
                },
            )
        ]
        for address, status in asked.items():
            if status is None:
                continue
            fault = fault_of(str(status.version))
            if fault is not None:
                what, _, fix = fault.partition("; ")
                remarks.append(Remark(Grade.WARN, f"{address}: {what}", mend=fix))
            if any(_NO_LEADER in error for error in status.errors):
                remarks.append(
                    Remark(
                        Grade.BAD,
                        f"{address} of etcd knows no leader",
                        "it refuses every write",
                        "start the other servers of the cluster",
                    )
                )
        return (*remarks, *self._of_history())

    def _of_history(self) -> Sequence[Remark]:
        finding = self._history.finding()
        if finding is None:
            return (Remark(Grade.OK, "etcd has room, and its history is no longer than it should be"),)
        seen, _, fix = finding.line.partition("; ")
        grade = Grade.BAD if finding.kind == "full" else Grade.WARN
        means = (
            "no member can lead"
            if finding.kind == "full"
            else "the database grows to its quota, and then refuses every write"
        )
        return (Remark(grade, seen, means, fix),)

    def _status(self, endpoint: Endpoint) -> Any:
        """The status; None: no answer."""
        request = pb.StatusRequest()
        try:
            return self._rpc.send(endpoint, lambda at: at.maintenance.Status, request, timeout_s=_ANSWERS_S)
        except (grpc.RpcError, StoreUnavailable):
            return None

    def server_time(self, scope: Scope) -> datetime | None:
        """By the date of an answer over HTTP, on the port of the clients: in whole seconds, rounded down."""
        if self._cluster.credentials is not None:
            return None
        address = self._rpc.endpoint().address
        try:
            with urllib.request.urlopen(f"http://{address}/version", timeout=_ANSWERS_S) as answer:
                return parsedate_to_datetime(answer.headers["Date"])
        except (OSError, HTTPException, TypeError, ValueError):
            return None  # a proxy, or a port for gRPC alone

    def forget(self, scope: Scope) -> None:
        """A scope without records leaves nothing."""
