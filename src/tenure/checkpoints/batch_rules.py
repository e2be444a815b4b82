"""Pure: how a new leader goes on at the newest checkpoint, the questions around a batch, and the limits of sweeps and
of retention.

The states of batch N, and the only words for them; a later state includes `planned`:

    planned   checkpoint N is committed
    retaken   planned, and a later term put its epoch and run directory into the checkpoint: N runs again
    written   the sink has N
    done      written, and noted by Spark: a whole run directory with the same offsets has `commits/N`
    closed    done, and the run directory of the checkpoint was seeded after N: the state before N is not there
    short     N ran without some of its planned inputs

Once a batch is done, its inputs may go (`cleanSource`, or by hand). Promise: under these rules no batch that is done is
run again, and a batch without all its planned inputs is an error. `tests/unit/checkpoints/test_batch_edges.py` explores
every interleaving, with leaders that are paused and wake up, and two habits of removing inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

D = TypeVar("D")
"""The name of a run directory."""


@dataclass(frozen=True, slots=True)
class Takeover(Generic[D]):
    """How a new leader goes on at the newest checkpoint, batch N."""

    source: D
    """The run directory to seed from."""
    done: bool
    """N is in the sink: go on after N. Else N is run again."""
    recorded: bool
    """One fenced write puts the new epoch and run directory into the checkpoint, before any run or plan."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The questions around the evaluation of a batch."""

    inputs: bool
    """Whether each planned file is there: asked after the evaluation, before the sink commits."""
    term: bool
    """Whether the term stands, by the store: asked before Spark may note the batch as done."""


def take_over(
    at: D,
    *,
    has_commit: Callable[[D], bool],
    inputs_gone: Callable[[], bool],
    done_in: Callable[[], Iterable[D]],
    may_be_short: Callable[[], bool] = lambda: False,
) -> Takeover[D] | None:
    """How to go on at a checkpoint N whose run directory is `at`; None: inputs of N are gone, and N is not done.

    `has_commit`: whether a run directory has Spark's `commits/N`, which decodes. `inputs_gone`: whether a file that is
    planned for N is missing. `done_in`: the whole run directories of the query with the same `offsets/N`, and with
    such a `commits/N`. `may_be_short`: whether N may run without the inputs that are gone. The functions after
    `has_commit` are called only where they decide.
    """
    if has_commit(at):
        # Spark writes `commits/N` after the sink returned, and lets sources clean up only after that.
        return Takeover(at, done=True, recorded=False)
    if not inputs_gone():
        return Takeover(at, done=False, recorded=True)
    for other in done_in():
        # A leader that was overtaken woke up, got N done, and cleaned.
        return Takeover(other, done=True, recorded=True)
    return Takeover(at, done=False, recorded=True) if may_be_short() else None


def may_run_short(*, keeps_state: bool, names_batches: bool) -> bool:
    """Whether a batch may run again without records that are gone, where its sources tolerate that.

    An earlier leader may have read all of them, and may have written the batch. A query without state loses nothing
    then: its output keeps the earlier rows or gets the remaining ones. A query with state would remember less than its
    output shows, and could write a row a second time; so it needs a sink that names the batches which it has, and the
    batch must not be among them (`short_state`).
    """
    return not keeps_state or names_batches


def short_state(*, keeps_state: bool, repeated: bool) -> bool:
    """Whether a batch that ran short leaves a state which lacks records of the output. `repeated`: the sink had the
    batch before."""
    return keeps_state and repeated


def asked_around(*, retaken: bool) -> Asked:
    """The questions around a batch. `retaken`: the batch was planned in an earlier term.

    Inputs go when their batch is done. So the inputs of a batch that is run for the first time can be gone only when
    the term is over, and the store knows that. The inputs of a retaken batch may be gone while the term stands: an
    overtaken leader may have got the batch done.
    """
    return Asked(inputs=retaken, term=not retaken)


def may_get_done(*, is_done: bool, has_plan: bool) -> bool:
    """Whether a run directory of an earlier epoch may hold the newest batch N as done, now or later. Then no sweep
    takes the directory, since `take_over` may need it. `is_done`: the run directory that the checkpoint names has
    `commits/N`. `has_plan`: this directory has `offsets/N`, which Spark writes before N can be done."""
    return not is_done and has_plan


def falls_out(batches: Sequence[int], *, adding: int, keep: int, locked: Collection[int] = ()) -> list[int]:
    """The batches whose checkpoints go when `adding` comes, oldest first, so that `keep` checkpoints remain.

    A locked checkpoint stays, and goes a later time. The newest of `batches` always stays: until the commit is done, a
    takeover needs it. `keep` >= 1.
    """
    if keep < 1:
        raise ValueError(f"at least one checkpoint is kept, got keep={keep}")
    ordered = sorted(batch for batch in batches if batch != adding)
    surplus = ordered[: max(0, len(ordered) + 1 - keep)]
    return [batch for batch in surplus if batch not in locked]
