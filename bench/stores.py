"""A plan, and who hears of it: each store on its own real servers, side by side on one disk.

- `plan`: the commit of a batch's plan under a term, as a driver waits for it before each batch.
- `wake`: from the start of that commit until another client, which follows the scope, has the new records.

Each store has a leader and a follower with a client each. The stores take turns in each round. The servers are those of
the tests, with their defaults: three of ZooKeeper and of etcd, one of the others. Plans per second of one query are the
reciprocal of `plan`.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from bench.harness import Contender, compare, report
from bench.plans import QUERY, planned
from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.scope_context import ScopeContext
from tests.kit.servers import STORES, served

CLOCK: Final = SystemClock()
SCOPE: Final = Scope("rows")
LATEST: Final = timedelta(seconds=60)
"""After this time a follower has missed the plan."""


class Side:
    """One store with its servers, a leader and a follower."""

    def __init__(self, store: str, folder: Path, stack: ExitStack) -> None:
        (folder / store).mkdir()
        url, _ = stack.enter_context(served(store, folder / store))
        leads, self._follows = (stack.enter_context(closing(open_store(url, clock=CLOCK))) for _ in range(2))
        keeper = stack.enter_context(SessionKeeper(leads, ttl=timedelta(seconds=30), clock=CLOCK))
        term = Election(leads, SCOPE, member="anna", clock=CLOCK).campaign(keeper, stop=threading.Event())
        assert term is not None, "nobody sets the event"
        self._term = term
        self._checkpoints = ScopeContext(leads, SCOPE, f"file://{folder}/storage", CLOCK).checkpoints(QUERY)
        self._checkpoints.newest(term)
        self._batch = 0

    def plan(self) -> float:
        """The seconds of a commit."""
        begun_s = time.perf_counter()
        made = planned(self._batch, epoch=self._term.epoch, member="anna", clock=CLOCK)
        self._checkpoints.plan(self._term, made)
        self._batch += 1
        return time.perf_counter() - begun_s

    def wake(self) -> float:
        """The seconds from the start of a commit until the follower has it."""
        revision = self._follows.glance(SCOPE).revision
        with self._follows.watch(SCOPE, after=revision) as changes:
            begun_s = time.perf_counter()
            writer = threading.Thread(target=self.plan)
            writer.start()
            seen = changes.wait(timeout=LATEST)
            took_s = time.perf_counter() - begun_s
            writer.join()
        assert seen is not None, "the follower heard nothing"
        return took_s


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.stores", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES))
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as name, ExitStack() as stack:
        sides = {store: Side(store, Path(name), stack) for store in given.stores}
        kinds: dict[str, Callable[[Side], float]] = {"plan": Side.plan, "wake": Side.wake}
        for kind, work in kinds.items():
            contenders: dict[str, Contender] = {store: partial(work, side) for store, side in sides.items()}
            report(compare(f"stores-{kind}", contenders, rounds=given.rounds, warmup=3))


if __name__ == "__main__":
    main()
