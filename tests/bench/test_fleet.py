"""The figures of a fleet: what is read from pages of servers, and what is made of it."""

from __future__ import annotations

import json
import mmap
from datetime import timedelta
from pathlib import Path

import pytest

from bench.fleet_counters import between, sample
from bench.fleet_scopes import Fleet, Scene

PAGE = """# HELP grpc_server_msg_received_total Total number of messages
grpc_server_msg_received_total{grpc_method="Range",grpc_service="etcdserverpb.KV"} 12
grpc_server_msg_received_total{grpc_method="Txn",grpc_service="etcdserverpb.KV"} 3
etcd_server_proposals_committed_total 1.5e+02
apiserver_request_total{code="200",resource="leases",subresource="",verb="PUT"} 7
apiserver_request_total{code="200",resource="pods",subresource="",verb="PUT"} 70
"""


@pytest.mark.parametrize(
    ("name", "labels", "found"),
    [
        ("grpc_server_msg_received_total", {"grpc_method": "Range"}, 12),
        ("grpc_server_msg_received_total", {}, 15),
        ("etcd_server_proposals_committed_total", {}, 150),
        ("apiserver_request_total", {"resource": "configmaps|leases", "verb": "PUT"}, 7),
        ("apiserver_request_total", {"verb": "GET"}, 0),
        ("proposals_committed_total", {}, 0),
    ],
)
def test_a_metric_is_summed_over_the_labels_that_are_not_given(name: str, labels: dict[str, str], found: float) -> None:
    assert sample(PAGE, name, **labels) == found


def test_work_is_the_difference_of_two_totals() -> None:
    assert between({"requests": 5.0}, {"requests": 8.0, "new": 1.0}) == {"requests": 3.0}


def test_the_newest_leader_of_a_scope_is_told_by_time_and_a_line_that_a_kill_cut_off_is_left_out(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, "sqlite:///ha.db", ttl=timedelta(seconds=1), every_s=1, plans=mmap.mmap(-1, 1))
    fleet = Fleet(scene, scopes=2, members=3, together=2)
    assert fleet.count == 6
    assert fleet.groups[0] == [("scope-0000", "member-0"), ("scope-0001", "member-0")]
    for number, (at, member) in enumerate(((2.0, "member-1"), (1.0, "member-0"))):
        line = json.dumps({"at": at, "what": "won", "scope": "scope-0000", "member": member})
        (tmp_path / f"notes-{number}.jsonl").write_text(f'{line}\n{{"at": 3.0, "wh')
    assert fleet.leaders() == {"scope-0000": "member-1"}
    assert fleet.leaders(after_s=2.0) == {}
