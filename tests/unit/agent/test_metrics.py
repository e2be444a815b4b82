"""The figures of a member: from its events, and of its state."""

from __future__ import annotations

import errno
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tenure.agent.condition import Condition
from tenure.agent.free_space import FreeSpaceWatch
from tenure.agent.metrics import METRICS, OTHER, Metrics
from tenure.clock import SystemClock
from tenure.coordination.candidates import Lag, State
from tenure.coordination.terms import WHYS
from tenure.events import (
    BatchCommitted,
    BatchMeasured,
    BatchStarted,
    CheckpointSaved,
    DriverEnded,
    Event,
    JvmStarted,
    OrphansFound,
    QueryStarted,
    RunDirectorySeeded,
    SinkAway,
    StoreAway,
    TermEnded,
    TermWon,
    WriteRefused,
)
from tests.kit.clock import ManualClock
from tests.kit.waiting import wait_until

WARM = Condition("anna", State.WARM, None, ready=True, scope="rows", leader="ben", newest_epoch=2, session_s=9.5)
LEADING = replace(WARM, state=State.LEADING, epoch=3, leader="anna", newest_epoch=3)


class Site:
    """Metrics of a member, and what their page has."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.metrics = Metrics(member="anna", clock=self.clock)
        self.metrics.know("rows")
        self.condition = WARM

    def tell(self, *events: Event) -> None:
        for event in events:
            self.metrics(event)

    def families(self) -> list[Metric]:
        """Those of Tenure."""
        page = self.metrics.page(self.condition).decode()
        return [one for one in text_string_to_metric_families(page) if not one.name.startswith("process_")]

    def page(self) -> dict[str, float]:
        """Name and labels but scope and member -> value, but for the figures of the process."""
        found = {}
        for family in self.families():
            for sample in family.samples:
                assert (sample.labels["scope"], sample.labels["member"]) == ("rows", "anna")
                rest = ",".join(f"{k}={v}" for k, v in sample.labels.items() if k not in ("scope", "member"))
                found[f"{sample.name.removeprefix('tenure_')}{{{rest}}}"] = sample.value
        return found


def has(page: dict[str, float], figures: Mapping[str, float]) -> bool:
    return {name: page.get(name) for name in figures} == figures


@pytest.fixture
def site() -> Site:
    return Site()


def test_the_state_is_that_of_the_moment(site: Site) -> None:
    site.condition = replace(WARM, lag=Lag(2, 700))
    page = site.page()
    assert has(page, {"state{state=warm}": 1, "state{state=leading}": 0, "leader{}": 0, "leader_seen{}": 1})
    assert has(page, {"epoch{}": 2, "ready{}": 1, "mirror_lag_batches{}": 2, "mirror_lag_bytes{}": 700})
    assert has(page, {"session_remaining_seconds{}": 9.5, "store_away{}": 0, "driver_silent_seconds{}": 0})
    site.condition = replace(LEADING, session_s=None, silent_s=6.5)
    page = site.page()
    assert has(page, {"leader{}": 1, "driver_silent_seconds{}": 6.5})
    assert "mirror_lag_bytes{}" not in page, "a leader has no mirror"
    assert "session_remaining_seconds{}" not in page


def test_the_versions_and_the_agents_process(site: Site) -> None:
    """The driver tells the version of its Spark, and another driver may have another."""
    python = platform.python_version()
    for spark in ("", "4.2.1", "4.3.0"):
        site.condition = replace(WARM, spark=spark)
        builds = [name for name in site.page() if name.startswith("build_info{")]
        assert builds == [f"build_info{{java=,python={python},spark={spark},version={version('tenure')}}}"]
    site.tell(JvmStarted("rows", member="anna", java="17.0.15"))
    assert f"build_info{{java=17.0.15,python={python},spark=4.3.0,version={version('tenure')}}}" in site.page()
    families = text_string_to_metric_families(site.metrics.page(WARM).decode())
    process = {one.name: one.samples[0].value for one in families if one.name.startswith("process_")}
    assert process["process_resident_memory_bytes"] > 0
    assert process["process_open_fds"] > 0


def test_the_free_space_is_there_while_it_is_known(site: Site, tmp_path: Path) -> None:
    def free() -> dict[str, float]:
        return {name: value for name, value in site.page().items() if name.startswith("storage_free_bytes")}

    watch = FreeSpaceWatch(str(tmp_path), told=site.metrics.has_free, clock=SystemClock())
    assert free() == {}, "nobody has asked"
    watch.start()
    try:
        wait_until(free, what="the free space")
        assert 0 < free()["storage_free_bytes{}"] <= shutil.disk_usage(tmp_path).total
    finally:
        watch.close()
    site.metrics.has_free(None)
    assert free() == {}


def test_a_disk_that_does_not_answer_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int | None] = []

    def fails(path: str) -> os.statvfs_result:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(os, "statvfs", fails)
    FreeSpaceWatch("/", told=told.append, clock=SystemClock()).look()
    assert told == [None]


def test_a_counter_is_there_before_its_first_event(site: Site) -> None:
    page = site.page()
    assert {f"terms_ended_total{{why={why}}}" for why in (*WHYS, OTHER)} <= page.keys()
    for name in ("terms_won_total{}", "driver_restarts_total{}", "store_failures_total{}", "away_total{what=sink}"):
        assert page[name] == 0
    assert page["writes_refused_total{by=store}"] == 0
    assert "batches_failed_total{query=copy}" not in page
    site.tell(QueryStarted("rows", 3, "copy", "runs/1"))
    assert has(site.page(), {"batches_failed_total{query=copy}": 0, "batches_committed_total{query=copy}": 0})


def test_counters_follow_the_events(site: Site) -> None:
    site.tell(
        TermWon("rows", "anna", 3),
        BatchCommitted("rows", 3, "copy", 7, repeated=False, seconds=0.5),
        BatchCommitted("rows", 3, "copy", 8, repeated=False, seconds=0.25),
        RunDirectorySeeded("rows", 3, "copy", 7, files=2, seconds=0.125),
        CheckpointSaved("rows", 3, "copy", 8, seconds=0.02),
        WriteRefused("rows", 3, by="store", what="plan of batch 9"),
        DriverEnded("rows", "anna", why="signal SIGKILL", again_s=3),
        StoreAway("rows", "anna", why="locked", again_s=1),
        SinkAway("rows", "anna", "refused", 3, query="copy"),
        OrphansFound("rows", 3, "run directories", 2),
        OrphansFound("rows", 3, "blobs", 3),
    )
    page = site.page()
    assert has(
        page,
        {
            "terms_won_total{}": 1,
            "batches_committed_total{query=copy}": 2,
            "last_batch{query=copy}": 8,
        },
    )
    assert has(page, {"writes_refused_total{by=store}": 1, "writes_refused_total{by=sink}": 0, "orphans{}": 5})
    assert has(page, {"driver_restarts_total{}": 1, "store_failures_total{}": 1, "away_total{what=sink}": 1})
    assert has(
        page,
        {
            "batch_duration_seconds_count{query=copy}": 2,
            "batch_duration_seconds_sum{query=copy}": 0.75,
        },
    )
    assert page["batch_duration_seconds_bucket{le=0.25,query=copy}"] == 1
    assert page["seed_duration_seconds_sum{query=copy}"] == 0.125
    assert page["plan_duration_seconds_sum{query=copy}"] == 0.02


@pytest.mark.parametrize(
    ("why", "label"),
    [("switchover", "switchover"), ("not resigned, it ends with the session: the store is away", OTHER)],
)
def test_why_a_term_ended_is_of_a_closed_list(site: Site, why: str, label: str) -> None:
    site.tell(TermWon("rows", "anna", 3), TermEnded("rows", "anna", 3, why=why))
    assert {name: value for name, value in site.page().items() if name.startswith("terms_ended") and value} == {
        f"terms_ended_total{{why={label}}}": 1
    }


def test_the_figures_of_a_term_go_with_it(site: Site) -> None:
    site.tell(
        TermWon("rows", "anna", 3),
        BatchCommitted("rows", 3, "copy", 7, repeated=False, seconds=0.5),
        BatchStarted("rows", 3, "copy", 8),
        OrphansFound("rows", 3, "blobs", 3),
    )
    site.clock.advance(timedelta(seconds=4))
    of_term = {"last_batch{query=copy}", "last_commit_timestamp_seconds{query=copy}", "term_start_timestamp_seconds{}"}
    of_term |= {"orphans{}", "batch_running_seconds{query=copy}"}
    page = site.page()
    assert of_term <= page.keys()
    assert page["batch_running_seconds{query=copy}"] == 4
    site.tell(TermEnded("rows", "anna", 3, why="switchover"))
    page = site.page()
    assert not of_term & page.keys(), "an alarm on them would fire for every member that led once"
    assert page["batches_committed_total{query=copy}"] == 1


def measured(batch: int, *, epoch: int = 3, **more: Any) -> BatchMeasured:
    """What Spark says of a batch of 40 rows."""
    return BatchMeasured("rows", epoch, "copy", batch, rows=40, rows_per_s=80.0, **more)


def test_what_spark_says_of_a_batch(site: Site) -> None:
    of_state: dict[str, Any] = {"state_rows": 7, "state_bytes": 900, "watermark_lag_s": 30.5}
    site.tell(
        TermWon("rows", "anna", 3),
        measured(7, **of_state, backlog={"orders": {"offsets": 12}, "prices": {"offsets": 0}}, at_limit=True),
        measured(8, **of_state, backlog={"orders": {"offsets": 9}}),
    )
    page = site.page()
    assert has(page, {"input_rows_total{query=copy}": 80, "batches_at_limit_total{query=copy}": 1})
    assert has(page, {"state_rows{query=copy}": 7, "state_bytes{query=copy}": 900})
    assert page["watermark_lag_seconds{query=copy}"] == 30.5
    assert {name: value for name, value in page.items() if name.startswith("source_backlog")} == {
        "source_backlog{query=copy,source=orders,unit=offsets}": 9
    }
    site.tell(TermEnded("rows", "anna", 3, why="switchover"), measured(9, **of_state, backlog={"a": {"offsets": 1}}))
    page = site.page()
    of_term = ("state_", "watermark_", "source_backlog")
    assert not [name for name in page if name.startswith(of_term)], "also of a batch that is told late"
    assert page["input_rows_total{query=copy}"] == 120, "it was read all the same"
    site.tell(TermWon("rows", "anna", 5), measured(9, **of_state))
    assert not [name for name in site.page() if name.startswith(of_term)], "it is of another term"


def test_a_query_without_state_has_no_figure_of_it(site: Site) -> None:
    site.tell(TermWon("rows", "anna", 3), measured(7))
    assert not [name for name in site.page() if name.startswith(("state_rows", "state_bytes", "watermark"))]


def test_the_requests_to_the_store(site: Site) -> None:
    page = site.page()
    kinds = ("denied", "unavailable", "unknown")
    assert has(page, {f"store_errors_total{{kind={kind}}}": 0 for kind in kinds})
    assert "store_last_contact_timestamp_seconds{}" not in page, "there was none"
    site.metrics.request("commit", 0.02, error="")
    at = site.clock.now().timestamp()
    site.clock.advance(timedelta(seconds=60))
    site.metrics.request("commit", 0.5, error="unavailable")
    site.metrics.request("glance", None, error="unknown")
    page = site.page()
    assert has(
        page, {"store_request_duration_seconds_count{op=commit}": 2, "store_last_contact_timestamp_seconds{}": at}
    )
    assert page["store_request_duration_seconds_sum{op=commit}"] == 0.52
    assert has(page, {f"store_errors_total{{kind={kind}}}": kind != "denied" for kind in kinds})
    assert "store_request_duration_seconds_count{op=glance}" not in page
    site.metrics.request("list", 0.02, error="denied")
    assert site.page()["store_last_contact_timestamp_seconds{}"] == at + 60, "it answered"


def test_a_takeover_lasts_until_the_first_batch_of_each_query(site: Site) -> None:
    site.tell(TermWon("rows", "anna", 3))
    for query in ("copy", "counts", "copy"):
        site.clock.advance(timedelta(seconds=2))
        site.tell(BatchCommitted("rows", 3, query, 7, repeated=False, seconds=0.5))
    page = site.page()
    assert page["takeover_duration_seconds_sum{query=copy}"] == 2
    assert page["takeover_duration_seconds_sum{query=counts}"] == 4
    assert page["takeover_duration_seconds_count{query=copy}"] == 1


def test_the_table_has_every_figure_and_no_other(site: Site) -> None:
    assert {one.name for one in site.families()} == {f"tenure_{name.removesuffix('_total')}" for name in METRICS}
    assert all(name.endswith("_total") == (kind == "counter") for name, (kind, _, _) in METRICS.items())
