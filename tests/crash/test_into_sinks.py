"""A query into files, Iceberg or Kafka: its leader is stopped, killed, and hangs at exact steps of a batch, and every
row is once in the target (I3). A leader that is woken behind its plan asks nobody but the sink.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from demo.ground import Ground
from tests import jvm_start
from tests.draw import TO_FILES, TO_ICEBERG, TO_KAFKA, only_if_drawn
from tests.kit.servers import KafkaServer
from tests.mutants.mutant import PACKAGE
from tests.soak import variants
from tests.soak.plan import FILES, ICEBERG, KAFKA, Plan, Query
from tests.soak.stage import Stage

SINKS = {FILES: TO_FILES, ICEBERG: TO_ICEBERG, KAFKA: TO_KAFKA}


@contextmanager
def staged(sink: str, folder: Path, *, topics: KafkaServer | None) -> Iterator[Stage]:
    params = {} if topics is None else {"target": topics.address}
    ground = Ground(f"file://{folder}/storage", str(folder / "output"), params, topics=topics)
    members = variants.environment(PACKAGE.parent, archive=jvm_start.class_archive(options=variants.jvm_options()))
    plan = Plan(0, (Query("passed", sink, "left"),))
    with Stage(folder, plan, environment=members, ground=ground) as stage:
        yield stage


@pytest.mark.timeout(900)
@pytest.mark.parametrize("sink", [pytest.param(sink, marks=only_if_drawn(name)) for sink, name in SINKS.items()])
def test_every_row_is_once_in_the_target(request: pytest.FixtureRequest, sink: str, tmp_path: Path) -> None:
    topics = request.getfixturevalue("kafka") if sink == KAFKA else None
    with staged(sink, tmp_path / "run", topics=topics) as stage:
        stage.feed()
        stage.member("anna", blindfold=True)
        stage.quiet()
        stage.member("ben", unswept=True)

        # Stopped behind the plan; woken when its successor has done that batch, and another one. Nobody tells it, and
        # what it has staged is there.
        stopped = stage.order("anna", "before sink commit", "STOP")
        stage.feed()
        stage.come(stopped)
        stage.told("BatchCommitted", by="ben", batch=1)
        stage.feed()
        stage.quiet()
        stage.wake(stage.slots["anna"])
        stage.let_write("anna")
        stage.kill(stage.slots["anna"])
        stage.quiet()
        stage.member("anna")

        # Killed when the target has the batch, and Spark has not noted that.
        killed = stage.order("ben", "after sink commit", "KILL")
        stage.feed()
        stage.come(killed)
        stage.told("BatchCommitted", by="anna", batch=3)
        stage.quiet()
        stage.member("ben")

        # Its driver hangs between the plan and the target, and is replaced.
        hung = stage.order("anna", "before sink commit", "STOP", part="driver")
        stage.feed()
        stage.come(hung)
        stage.told("BatchCommitted", by="ben", batch=4)

        stage.ends_well()
        assert stage.findings == []
        written = [event.fields["batch"] for event in stage.journal.events if event.kind == "BatchCommitted"]
        assert set(range(6)) <= {*written}
