"""Ends at exact points: the stories of the edges of a batch, one each. `PLACED` names them.

Each is right whoever dies, and shows what a rule is for: without it an output is wrong, the pipeline stands still, or a
function is called that must not be called.

| rule | stories | `--without` | then |
|---|---|---|---|
| a batch that is done is not run again | `idle-...`, `night`, `killed-...` | `rule-c` | called again (1) |
| planned inputs are looked for, twice | `moved-...`, `...-it-reads` | `rule-k` | both wrong |
| each run directory that has it done counts | `finished-...`, `...-it-starts` | `rule-y` | exit code 5 for ever |
| the store is asked after a first evaluation | `marked-by-a-zombie` | `rule-t` | wrong |
| a batch that is run again is retaken | `run-again-by-a-zombie` | `rule-a` | wrong |
| the store is asked immediately before a function | `woken-...` | `calls-on-an-old-word` | called too late |
| which folder belongs to which offset is recorded | `one-folder-twice` | `guesses-the-folders` | exit code 5 for ever |
| (none: state files without a unique name are seeded whole) | `taken-over-again` | | |

(1) In `idle-killed-inputs-left`. No output is wrong without this rule: the next two see the same `commits/N`.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.kit.waiting import NEVER_S
from tests.soak.checks import WrongError, late_calls
from tests.soak.plan import Plan, Query
from tests.soak.run import Result, tidy
from tests.soak.scene import Finding, StuckError
from tests.soak.stage import Stage

COUNTS: Final = ("counts", "delta")
KEPT: Final = ("counts", "ledger")


@dataclass(frozen=True, slots=True)
class Story:
    """What is told to members, and the query that they run."""

    tell: Callable[[Stage], None]
    query: Query
    lenient: bool = False
    state: str = "rocksdb"


def _first_batch(stage: Stage, name: str, **faults: bool) -> None:
    """A member leads, and its first batch is done."""
    stage.feed()
    stage.member(name, **faults)
    stage.quiet()


def _night(stage: Stage) -> None:
    """A run ends by idleness, its inputs are moved away, the next run goes on."""
    stage.feed(2)
    for _ in range(2):
        slot = stage.member("anna", until_idle=True)
        stage.wait(lambda slot=slot: not slot.running, seconds=NEVER_S, what="the end by idleness")  # type: ignore[misc] # bound now
        stage.quiet()
        stage.move_quiet()
        stage.feed()
    stage.ends_well("anna")


def _idle_killed(stage: Stage) -> None:
    """An idle leader is killed, its inputs are moved away, another one takes over."""
    _first_batch(stage, "anna")
    stage.kill(stage.slots["anna"])
    stage.move_quiet()
    stage.ends_well("ben")


def _idle_ended(stage: Stage) -> None:
    """An idle leader is asked to end, its inputs are moved away, another one takes over."""
    _first_batch(stage, "anna")
    slot = stage.slots["anna"]
    slot.terminate(stage.journal)
    stage.wait(lambda: not slot.running, seconds=NEVER_S, what="the end of anna")
    stage.move_quiet()
    stage.ends_well("ben")


def _killed_before_plan(stage: Stage) -> None:
    """Spark has written `offsets/1` and cleans up what batch 0 read; the leader is killed before it plans batch 1."""
    _first_batch(stage, "anna")
    before = stage.here
    held = stage.order("anna", "after offsets, before plan", "HOLD")
    stage.feed()
    stage.come(held)
    stage.wait(lambda: not before & stage.here, seconds=NEVER_S, what="the source to be cleaned")
    stage.kill(stage.slots["anna"])
    stage.ends_well("ben")


def _moved_before_commit(stage: Stage) -> None:
    """The output shows a batch that Spark has not noted yet; its inputs are moved away, and the leader is killed."""
    _first_batch(stage, "anna")
    held = stage.order("anna", "after sink commit", "HOLD")
    stage.feed()
    stage.come(held)
    stage.move_shown()
    stage.kill(stage.slots["anna"])
    stage.ends_well("ben")


def _cleaned_by_a_zombie(stage: Stage, *, step: str) -> None:
    """A leader is stopped before Spark notes its batch; its successor, which is to run that batch again, is held at
    `step`; the first one is woken, notes the batch, and cleans up what the successor is about to read."""
    held = stage.order("ben", step, "HOLD")
    mine = _stopped_before_commits(stage)
    stage.come(held)
    _finishes_and_cleans(stage, mine)
    stage.go_on(held)
    stage.slots["ben"].stay_down = False
    stage.ends_well("anna")


def _stopped_before_commits(stage: Stage) -> frozenset[str]:
    """The leader, anna, is stopped when her second batch is in the sink and nothing is asked any more; return what that
    batch has read."""
    _first_batch(stage, "anna", blindfold=True)
    stage.member("ben")
    stopped = stage.order("anna", "before commits", "STOP")
    before = stage.here
    stage.feed()
    stage.come(stopped)
    return stage.here - before


def _finishes_and_cleans(stage: Stage, mine: frozenset[str]) -> None:
    """The zombie, anna, is woken, and killed when she has cleaned up what her batch had read."""
    stage.feed()  # Spark cleans up when it begins the next batch
    stage.wake(stage.slots["anna"])
    stage.wait(lambda: not mine & stage.here, seconds=NEVER_S, what="the source to be cleaned by the zombie")
    stage.kill(stage.slots["anna"])


def _finished_by_a_zombie(stage: Stage) -> None:
    """A leader is stopped before Spark notes its batch; its successor is killed when it has retaken that batch; the
    first one is woken, notes the batch, and cleans up what it had read."""
    killed = stage.order("ben", "before staging", "KILL")
    mine = _stopped_before_commits(stage)
    stage.come(killed)
    stage.wait(lambda: not stage.slots["ben"].running, seconds=NEVER_S, what="the end of ben")
    _finishes_and_cleans(stage, mine)
    stage.ends_well("ben")


def _cleaned_before_it_starts(stage: Stage) -> None:
    """The zombie cleans up before the successor has started its query."""
    _cleaned_by_a_zombie(stage, step="after seeding")


def _cleaned_before_it_reads(stage: Stage) -> None:
    """The zombie cleans up after the successor has begun its batch, before that reads."""
    _cleaned_by_a_zombie(stage, step="before staging")


def _marked_by_a_zombie(stage: Stage) -> None:
    """A leader is stopped before it reads what it has planned. The next one runs that batch, and is killed when it is
    in the sink. Its inputs are moved away; the first one is woken, reads nothing, and is not to note the batch."""
    _first_batch(stage, "anna", blindfold=True)
    stage.member("ben")
    held = stage.order("anna", "before staging", "HOLD")
    killed = stage.order("ben", "after sink commit", "KILL")
    stage.feed()
    stage.told("CheckpointSaved", by="anna", batch=1)
    stage.come(held)
    stage.stop(stage.slots["anna"])
    stage.go_on(held)
    stage.come(killed)
    stage.wait(lambda: not stage.slots["ben"].running, seconds=NEVER_S, what="the end of ben")
    stage.move_shown()
    stage.wake(stage.slots["anna"])
    stage.let_write("anna")
    stage.kill(stage.slots["anna"])
    stage.ends_well("ben")


def _run_again_by_a_zombie(stage: Stage) -> None:
    """A leader is stopped before it looks what there is to do. The next one plans the first batch and is held before it
    reads; the first one is woken, and would run that batch. When the output shows it, its inputs are moved away."""
    stopped = stage.order("anna", "before taking over", "STOP")
    stage.member("anna", blindfold=True)
    stage.come(stopped)
    held = stage.order("ben", "before staging", "HOLD")
    stage.feed()
    stage.member("ben", unswept=True)
    stage.told("CheckpointSaved", by="ben", batch=0)
    stage.come(held)
    stage.wake(stage.slots["anna"])
    stage.let_write("anna")
    if stage.outputs[0].rows():
        stage.move_shown()
    stage.kill(stage.slots["anna"])
    stage.go_on(held)
    stage.slots["ben"].stay_down = False
    stage.ends_well("anna")


def _woken_before_the_function(stage: Stage) -> None:
    """A leader is stopped between the plan and the call of the function. Another one leads and writes; the first one is
    woken: it must not call the function."""
    _first_batch(stage, "anna")
    stage.member("ben")
    stopped = stage.order("anna", "before sink commit", "STOP")
    stage.feed()
    stage.come(stopped)
    _late(stage, zombie="anna", successor="ben")


def _woken_before_the_function_again(stage: Stage) -> None:
    """The same of a batch that is run again: it was planned by a leader that was killed then."""
    _first_batch(stage, "anna")
    stage.member("ben")
    killed = stage.order("anna", "after plan", "KILL")
    stopped = stage.order("ben", "before sink commit", "STOP")
    stage.feed()
    stage.come(killed)
    stage.come(stopped)
    stage.member("anna")
    _late(stage, zombie="ben", successor="anna")


def _late(stage: Stage, *, zombie: str, successor: str) -> None:
    stage.told("BatchCommitted", by=successor, batch=1)
    mark = len(stage.journal.events)
    stage.wake(stage.slots[zombie])
    stage.told("TermEnded", by=zombie, since=mark)
    stage.ends_well()
    late = late_calls(stage)
    if late:
        stage.findings.append(Finding("late", f"the function was called {late} times by {zombie}, which led no more"))


def _one_folder_twice(stage: Stage) -> None:
    """A query reads one folder twice, and two others whose offsets are equal; its leader is killed."""
    stage.feed()
    stage.member("anna")
    stage.quiet()
    stage.feed(but=("a",))
    stage.quiet()
    stage.kill(stage.slots["anna"])
    stage.ends_well("ben")


def _taken_over_again(stage: Stage) -> None:
    """Two takeovers in the course of a few batches, of a state whose files are named by their version alone."""
    for name in ("anna", "ben"):
        stage.member(name)
        for _ in range(2):
            stage.feed()
            stage.quiet()
        stage.kill(stage.slots[name])
    stage.ends_well("anna")


PLACED: Final[Mapping[str, Story]] = {
    "night": Story(_night, Query(*KEPT, "quiet")),
    "idle-killed": Story(_idle_killed, Query(*KEPT, "quiet")),
    "idle-killed-inputs-left": Story(_idle_killed, Query(*KEPT, "left")),
    "idle-ended": Story(_idle_ended, Query(*KEPT, "quiet")),
    "killed-before-plan": Story(_killed_before_plan, Query(*KEPT, "delete")),
    "killed-before-plan-archive": Story(_killed_before_plan, Query(*COUNTS, "archive")),
    "moved-before-commit": Story(_moved_before_commit, Query(*KEPT, "shown")),
    "cleaned-before-it-starts": Story(_cleaned_before_it_starts, Query(*COUNTS, "delete")),
    "cleaned-before-it-reads": Story(_cleaned_before_it_reads, Query(*COUNTS, "delete"), lenient=True),
    "finished-by-a-zombie": Story(_finished_by_a_zombie, Query(*KEPT, "delete")),
    "marked-by-a-zombie": Story(_marked_by_a_zombie, Query(*COUNTS, "shown"), lenient=True),
    "run-again-by-a-zombie": Story(_run_again_by_a_zombie, Query(*COUNTS, "shown"), lenient=True),
    "woken-before-the-function": Story(_woken_before_the_function, Query("passed", "ledger", "left")),
    "woken-before-the-function-again": Story(_woken_before_the_function_again, Query("passed", "ledger", "left")),
    "taken-over-again": Story(_taken_over_again, Query(*KEPT, "left"), state="hdfs"),
    "one-folder-twice": Story(_one_folder_twice, Query("twice", "ledger", "left")),
}


def carry_out_placed(name: str, folder: Path, *, environment: Mapping[str, str], keep: bool = False) -> Result:
    """Tell a story in an empty folder. What was right is removed again, but for its timeline,
    unless `keep`."""
    story = PLACED[name]
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps({"story": name, **asdict(story.query)}))
    plan = Plan(seed=0, queries=(story.query,), state=story.state, lenient=story.lenient)
    with Stage(folder, plan, environment=environment) as stage:
        began_s = stage.clock.monotonic_s()
        try:
            story.tell(stage)
        except WrongError:
            stage.log("an output is wrong")
        except StuckError as stuck:
            stage.findings.append(Finding("stuck", str(stuck)))
        except Exception:
            stage.log(traceback.format_exc())
            raise
        result = Result.of(stage, {name: 1}, seconds=stage.clock.monotonic_s() - began_s)
    if result.right and not keep:
        tidy(folder)
    return result
