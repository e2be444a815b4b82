"""Bad input files that an operator takes out of a planned batch: each step may be the last, and until the end nobody
leads; what is refused; and which missing files a retaken batch may then do without."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.left_out import LeftOut
from tenure.clock import SystemClock
from tenure.coordination.candidates import PAUSED, Identity
from tenure.coordination.election import observe
from tenure.coordination.encoding import encode
from tenure.coordination.held_term import held
from tenure.coordination.records import Put, Scope
from tenure.coordination.terms import QUARANTINE
from tenure.errors import InputsGone, UsageError
from tenure.inputs.query_inputs import PlannedInputs, QueryInputs, Shortness
from tenure.operate import quarantine as quarantine_module
from tenure.operate.history import history
from tenure.operate.orders import Orders
from tenure.operate.quarantine import chosen, open_batch, quarantine
from tenure.scope_context import ScopeContext
from tests.kit.faulty import FaultyStore, writes_under
from tests.kit.memory import MemoryServer, MemoryStore
from tests.unit.rundirs.made_by_hand import NEWEST, a_run_directory, offsets_of

SCOPE, CLOCK, WHO = Scope("rows"), SystemClock(), Identity("anna", "here", 7)
BY = "root@host"


class Bench:
    """A scope with two queries, whose newest batch is planned with the same two files, and is not done."""

    def __init__(self, folder: Path) -> None:
        self.store = FaultyStore(MemoryStore(MemoryServer()))
        self.context = ScopeContext(self.store, SCOPE, f"file://{folder}/storage", CLOCK)
        self.input, self.aside = folder / "input", folder / "aside"
        self.input.mkdir()
        for name in ("good.json", "bad.json"):
            (self.input / name).write_text(name)
        with held(self.store, SCOPE, WHO, ttl=timedelta(seconds=30), timeout=None, clock=CLOCK) as term:
            for query in ("copy", "counts"):
                run = f"runs/{query}/e00000001-anna-0"
                directory = folder / "storage" / run
                a_run_directory(f"file://{directory}")
                (directory / "commits" / str(NEWEST)).unlink()
                entries = [{"path": self.url(name), "timestamp": 1, "batchId": NEWEST} for name in ("good", "bad")]
                log = directory / "sources" / "0" / str(NEWEST)
                log.write_text("\n".join(["v1", *map(json.dumps, entries)]))
                made = Checkpoint(query, "the-query", NEWEST, offsets_of(NEWEST), run, term.epoch, "monday")
                self.context.checkpoints(query).adopt(term, made)
        self.pause("batch 13 of copy fails: no JSON")

    def url(self, name: str) -> str:
        return f"file://{self.input}/{name}.json"

    def pause(self, why: str) -> None:
        put = Put(PAUSED, encode({"at": "monday", "why": why, "by": "anna", "uid": "u"}), replaces=None)
        self.store.commit(SCOPE, guards=(), writes=(put,))

    def quarantine(self, *files: str, to: Path | None = None) -> tuple[Sequence[LeftOut], bool]:
        batch = open_batch(self.context, "copy")
        return quarantine(self.context, batch, chosen(batch, files), to=str(to or self.aside), by=BY)

    @property
    def is_done(self) -> bool:
        """The file is moved, both queries know, and the pipeline goes on."""
        moved = (self.aside / "bad.json").read_text() == "bad.json" and not (self.input / "bad.json").exists()
        known = [self.context.left_out(query) for query in ("copy", "counts")]
        right = all(one is not None and (one.batch, one.files) == (NEWEST, (self.url("bad"),)) for one in known)
        return moved and right and not observe(self.store, SCOPE).pause


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_file_is_taken_out_of_every_batch_that_is_planned_with_it(bench: Bench) -> None:
    batch = open_batch(bench.context, "copy")
    assert (batch.batch, batch.files) == (NEWEST, (bench.url("good"), bench.url("bad")))
    records, goes_on = bench.quarantine("bad.json")
    assert [one.query for one in records] == ["copy", "counts"]
    assert goes_on
    assert bench.is_done
    assert [(one.epoch, one.holder, one.why) for one in history(bench.store, SCOPE).terms] == [
        (1, "anna", "resigned"), (2, BY, QUARANTINE),
    ]  # fmt: skip
    assert history(bench.store, SCOPE).terms[1].detail == f"batch {NEWEST} of copy without bad.json"
    assert history(bench.store, SCOPE).terms[1].by == BY
    assert (bench.input / "good.json").exists()


@pytest.mark.parametrize("step", ["before the move", "after the copy", "before the end of the pause"])
def test_a_death_at_any_step_leaves_a_paused_scope_and_the_command_completes_it(
    bench: Bench, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:

        def die(*positional: Any, **named: Any) -> None:
            if step == "after the copy":
                bench.aside.mkdir()
                (bench.aside / "bad.json").write_text("bad")  # half of it
            raise KeyboardInterrupt

        patch.setattr(quarantine_module, "_go_on" if step == "before the end of the pause" else "_move", die)
        with pytest.raises(KeyboardInterrupt):
            bench.quarantine("bad.json")
    assert observe(bench.store, SCOPE).pause is not None, "nobody leads"
    assert bench.quarantine(*(() if step == "before the end of the pause" else ("bad.json",)))[1]
    assert bench.is_done


def test_a_scope_that_is_not_paused_is_paused_meanwhile(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    Orders(bench.store, SCOPE, clock=CLOCK).resume()
    seen: list[str] = []
    move = quarantine_module._move

    def look(file: str, to: str) -> None:
        pause = observe(bench.store, SCOPE).pause
        seen.append("" if pause is None else pause.why)
        move(file, to)

    monkeypatch.setattr(quarantine_module, "_move", look)
    assert bench.quarantine("bad.json")[1]
    assert seen == [f"the quarantine of files of batch {NEWEST} of copy is not complete"]
    assert bench.is_done


def test_the_pause_of_an_operator_stays(bench: Bench) -> None:
    orders = Orders(bench.store, SCOPE, clock=CLOCK)
    orders.resume()
    orders.pause()
    assert not bench.quarantine("bad.json")[1]
    assert observe(bench.store, SCOPE).pause is not None
    orders.resume()
    assert bench.is_done


def test_a_second_file_joins_the_first(bench: Bench) -> None:
    bench.quarantine("bad.json")
    records, _ = bench.quarantine("good.json")
    assert [one.files for one in records] == [(bench.url("good"), bench.url("bad"))] * 2
    assert sorted(one.name for one in bench.aside.iterdir()) == ["bad.json", "good.json"]


def test_a_lost_reply_is_settled(bench: Bench) -> None:
    bench.store.lose_reply(when=writes_under("quarantined"), times=1)
    assert bench.quarantine("bad.json")[1]
    assert bench.is_done
    assert len(history(bench.store, SCOPE).terms) == 2


def test_a_scope_that_is_led_is_refused(bench: Bench) -> None:
    Orders(bench.store, SCOPE, clock=CLOCK).resume()
    with held(bench.store, SCOPE, WHO, ttl=timedelta(seconds=30), timeout=None, clock=CLOCK):
        with pytest.raises(UsageError, match="scope 'rows' is led by anna; wait until nobody leads"):
            bench.quarantine("bad.json")
        assert (bench.input / "bad.json").exists()


def test_a_leader_that_is_elected_meanwhile_is_not_disturbed(bench: Bench) -> None:
    Orders(bench.store, SCOPE, clock=CLOCK).resume()

    def elected(call: Any, proceed: Any) -> Any:
        with held(bench.store, SCOPE, WHO, ttl=timedelta(seconds=30), timeout=None, clock=CLOCK):
            return proceed()

    bench.store.script(elected, when=writes_under("quarantined"), times=1)
    with pytest.raises(UsageError, match="scope 'rows' changed meanwhile; nothing was written"):
        bench.quarantine("bad.json")
    assert bench.context.left_out("copy") is None


def test_what_cannot_be_taken_out(bench: Bench) -> None:
    batch = open_batch(bench.context, "copy")
    with pytest.raises(UsageError, match="query 'other' has no checkpoint in scope 'rows'; known: "):
        open_batch(bench.context, "other")
    with pytest.raises(UsageError, match=r"'c\.json' is no planned file of batch 13 of query 'copy'"):
        chosen(batch, ["c.json"])
    with pytest.raises(UsageError, match="lies in the folder of the input, where the source would find the files"):
        bench.quarantine("bad.json", to=bench.input / "bad")
    bench.aside.mkdir()
    (bench.aside / "bad.json").write_text("of another batch")
    with pytest.raises(UsageError, match=r"bad\.json exists already; give another --to"):
        bench.quarantine("bad.json")
    assert (bench.input / "bad.json").exists()
    assert len(history(bench.store, SCOPE).terms) == 1, "no refusal writes anything"


def test_a_batch_that_is_done_is_refused(bench: Bench) -> None:
    directory = Path(bench.context.storage.removeprefix("file://")) / "runs/copy/e00000001-anna-0"
    (directory / "commits" / str(NEWEST)).write_text("v1\n{}")
    with pytest.raises(UsageError, match="batch 13 of query 'copy' is done, and no later batch is planned"):
        open_batch(bench.context, "copy")


# --- the batch that runs again ----------------------------------------------------------------------------------

RECORD = LeftOut("copy", 9, ("bad", "worse"), "aside", BY, "monday", "")


class NoRecords:
    """A query without Kafka."""

    tolerant = False

    def lost(self, ranges: Sequence[Any]) -> tuple[Any, ...]:
        return ()

    def tolerates(self, lost: Sequence[Any]) -> bool:
        return True


def inputs_of(*missing: str, keeps_state: bool = False) -> QueryInputs:
    return QueryInputs(
        "copy",
        cast(Any, NoRecords()),
        times=lambda files: [],
        missing=lambda files: [file for file in files if file in missing][:2],
        shortness=Shortness(lambda: keeps_state, names_batches=True, short_batch=False),
        quarantine=lambda: RECORD,
    )


PLANNED = PlannedInputs(("bad", "worse", "good", "better"))


def test_only_the_files_that_were_taken_out_may_be_missing() -> None:
    inputs = inputs_of("bad", "worse")
    gone = inputs.gone(PLANNED, batch=9)
    assert inputs.may_be_short(gone, batch=9)
    assert inputs.leaves_out(9)
    assert inputs.check(PLANNED, batch=9, written=True).files == ("bad", "worse")
    also = inputs_of("bad", "worse", "good")
    found = also.gone(PLANNED, batch=9)
    assert "good" in found.files, "a search that ends at two files overlooked the third"
    assert not also.may_be_short(found, batch=9)
    with pytest.raises(InputsGone, match="planned for batch 9 of query 'copy' are gone: good"):
        also.check(PLANNED, batch=9, written=False)


def test_the_record_is_for_one_batch() -> None:
    inputs = inputs_of("bad")
    assert not inputs.may_be_short(inputs.gone(PLANNED, batch=10), batch=10)
    with pytest.raises(InputsGone):
        inputs.check(PLANNED, batch=10, written=False)


def test_a_state_that_would_lack_rows_of_the_output_is_refused() -> None:
    for keeps_state in (False, True):
        inputs = inputs_of("bad", keeps_state=keeps_state)
        without = inputs.check(PLANNED, batch=9, written=False)
        inputs.check_state(without, batch=9, repeated=False)
        if keeps_state:
            with pytest.raises(InputsGone, match="are gone: bad"):
                inputs.check_state(without, batch=9, repeated=True)
        else:
            inputs.check_state(without, batch=9, repeated=True)
