"""Leaders that are killed or stopped at an edge of a batch: what the next one, and they themselves, must not do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.cli.conftest import place, spark
from tests.cli.support import Place
from tests.crash.cluster import LAUNCH
from tests.draw import QUARTERS, only_if_drawn
from tests.kit.members import MemberProcess
from tests.kit.waiting import wait_until

__all__ = ["place", "spark"]

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

LONG = timedelta(seconds=120)

CLEANED = """
rows = job.spark.readStream.schema("id long, k string").option("maxFilesPerTrigger", 1)
rows = rows.option("cleanSource", "delete").json(job.params["input"])
job.stream("counts", rows.groupBy("k").count(), sink=Delta(job.params["output"], key=["k"]), output_mode="update")
"""
# Spark removes what it has read in the batch's own thread: so it is known to be gone.
AT_ONCE = ("--conf", "spark.sql.streaming.fileSource.cleaner.numThreads=0")

NOTED = """
import json
def note(rows, batch):
    ids = sorted(row["id"] for row in rows.collect())
    with open(job.params["output"], "a") as calls:
        calls.write(json.dumps([batch.id, batch.epoch, ids]) + "\\n")
job.stream("copy", source(job), sink=ForeachBatch(note, idempotent=True), trigger="200 milliseconds")
"""


class Members:
    """Members of a pipeline, as processes with faults around them; all end with the test."""

    def __init__(self, place: Place, file: str) -> None:
        self._place = place
        self._file = file
        self.all: list[MemberProcess] = []

    def start(self, name: str, *more: str, **faults: Any) -> MemberProcess:
        files = {word: str(self._place.folder / f"{name}.{word}") for word in ("turn", "order")}
        flags = self._place.flags()
        log = flags.index("--spark-log")
        member = MemberProcess(
            name,
            folder=self._place.folder,
            arguments=["run", self._file, *flags[:log], *flags[log + 2 :], *more],
            command=LAUNCH,
            environment={"TESTING_FAULTS": json.dumps({**files, **faults})},
        )
        self.all.append(member)
        member.start()
        return member

    def order(self, member: MemberProcess, *, step: str, signal: str) -> Path:
        """Let a running member be struck at a step; the file is gone when that happened."""
        path = self._place.folder / f"{member.name}.order"
        hidden = path.with_suffix(".hidden")
        hidden.write_text(json.dumps({"step": step, "part": "host", "signal": signal}))
        hidden.rename(path)
        return path

    def wait(self, condition: Callable[[], Any], *, what: str) -> None:
        """Raises TimeoutError with what every member printed."""
        try:
            wait_until(condition, LONG, what=what)
        except TimeoutError as late:
            told = "\n".join(f"--- {one.name} ({one.exit_code})\n{one.output()[-3000:]}" for one in self.all)
            raise TimeoutError(f"{late}\n{told}") from late


@pytest.fixture
def started(place: Place) -> Iterator[list[Members]]:
    made: list[Members] = []
    yield made
    for members in made:
        for member in members.all:
            member.kill()


def members_of(place: Place, started: list[Members], *body: str) -> Members:
    members = Members(place, place.pipeline(*body))
    started.append(members)
    return members


@only_if_drawn(QUARTERS[0])
def test_a_leader_that_dies_before_its_plan_loses_nothing_that_spark_has_cleaned(
    place: Place, started: list[Members], spark: SparkSession
) -> None:
    """Spark removes the inputs of a batch when it has written the offsets of the next one."""
    members = members_of(place, started, CLEANED)
    for number in range(4):
        place.feed(2 * number, 2 * number + 1)
    anna = members.start("anna", *AT_ONCE, die_at="after offsets, before plan", die_after_batches=2)
    members.wait(lambda: not anna.running, what="the end of anna")
    assert len(list(place.input.glob("*.json"))) < 4, "Spark has removed something"
    told = place.run(place.pipeline(CLEANED), spark=spark)
    assert told.code == 0, told.err
    assert sorted((row["k"], row["count"]) for row in place.rows()) == [("a", 4), ("b", 4)]


@only_if_drawn(QUARTERS[2])
def test_a_function_is_not_called_again_for_what_an_idle_leader_that_was_killed_had_done(
    place: Place, started: list[Members], spark: SparkSession
) -> None:
    members = members_of(place, started, NOTED)
    place.feed(0, 1)
    anna = members.start("anna")
    runs = place.storage / "rows" / "runs" / "copy"
    members.wait(lambda: list(runs.glob("*/commits/0")), what="the end of the batch")
    anna.kill()
    told = place.run(place.pipeline(NOTED), spark=spark)
    assert told.code == 0, told.err
    assert calls(place) == [(0, 1, [0, 1])]


@only_if_drawn(QUARTERS[3])
def test_a_function_is_called_by_nobody_who_was_stopped_before_the_call_and_wakes_too_late(
    place: Place, started: list[Members]
) -> None:
    """One is stopped in a batch that it planned, its successor in the same batch, which it runs again."""
    members = members_of(place, started, NOTED)
    place.feed(0)
    anna = members.start("anna")
    members.wait(lambda: calls(place) == [(0, 1, [0])], what="the first batch")
    ben = members.start("ben")
    members.wait(lambda: ben.events("MemberReady"), what="the standby")
    stops = [members.order(one, step="before sink commit", signal="STOP") for one in (anna, ben)]
    place.feed(1)
    members.wait(lambda: not any(stop.exists() for stop in stops), what="both to be stopped")
    anna.wake()
    members.wait(lambda: len(calls(place)) == 2, what="the call of the third leader")
    ben.wake()
    for one in (anna, ben):
        members.wait(lambda: one.events("WriteRefused", by="store"), what="the refusal")  # noqa: B023 - called at once
    place.feed(2)
    members.wait(lambda: len(calls(place)) >= 3, what="another batch")
    assert [batch for batch, _, _ in calls(place)] == [0, 1, 2]
    assert calls(place)[1][1] >= 3, "by neither of the two terms in which it was stopped"


def calls(place: Place) -> list[tuple[int, int, list[int]]]:
    """Batch, epoch and ids of each call."""
    lines = place.output.read_text().splitlines() if place.output.exists() else []
    return [(batch, epoch, ids) for batch, epoch, ids in map(json.loads, lines)]
