"""Pure: what a new leader makes of the newest checkpoint, what is asked around a batch, and what no sweep may take.

A batch has edges where Spark's life and ours meet: it is planned, read, in the sink, noted as done (`commits/N`), and
then its inputs may go (`cleanSource`, or by hand). Promise: under these rules no batch that is done is run again, and
none is made of fewer inputs than were planned, without a word. `tests/unit/checkpoints/test_batch_edges.py` explores
every interleaving of them, with leaders that are paused and wake up, in two habits of removing inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

D = TypeVar("D")
"""How a run directory is named."""


@dataclass(frozen=True, slots=True)
class Takeover(Generic[D]):
    """How a new leader goes on at the newest checkpoint, batch N."""

    source: D
    """The run directory to seed from."""
    done: bool
    """N is in the sink: go on after it. Else N is run again."""
    recorded: bool
    """Before anything is run or planned, one fenced write puts the new epoch and the new run directory into the
    checkpoint."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked around the evaluation of a batch."""

    inputs: bool
    """Whether each planned file is there: once it is evaluated, and before the sink commits it."""
    term: bool
    """Whether the store says that the term stands: before Spark may note the batch as done."""


def take_over(
    at: D,
    *,
    has_commit: Callable[[D], bool],
    inputs_gone: Callable[[], bool],
    finished: Callable[[], Iterable[D]],
) -> Takeover[D] | None:
    """How to go on at a checkpoint N whose run directory is `at`; None: inputs of N are gone, and nobody finished it.

    `has_commit`: whether a run directory has Spark's `commits/N`, which decodes. `inputs_gone`: whether a file that is
    planned for N is not there. `finished`: the whole run directories of the query with the very same `offsets/N`, and
    such a `commits/N`. The latter two are asked only where they decide.
    """
    if has_commit(at):
        # Spark writes it after the sink returned, and lets sources clean up only after that: whoever died when.
        return Takeover(at, done=True, recorded=False)
    if not inputs_gone():
        return Takeover(at, done=False, recorded=True)
    for other in finished():
        # A leader that was overtaken woke up, finished N, and cleaned.
        return Takeover(other, done=True, recorded=True)
    return None


def asked_around(*, retaken: bool) -> Asked:
    """What is asked around a batch; `retaken`: it was planned in an earlier term.

    Inputs of a batch that is run for the first time can be gone only where the term is over, since they go when the
    batch is done: so the store is asked then. Those of a retaken batch may have been removed by a leader that was
    overtaken, and has finished it, while the term stands.
    """
    return Asked(inputs=retaken, term=not retaken)


def may_finish(*, is_closed: bool, has_plan: bool) -> bool:
    """Whether a run directory of an earlier epoch may hold the newest batch of its query as done, or come to: then no
    sweep takes it, since `take_over` may need it. `is_closed`: the run directory that the checkpoint names has
    `commits/N`. `has_plan`: this one has `offsets/N`, which is there before N can be done."""
    return not is_closed and has_plan
