"""Exporters that wait in the middle, under their lock, and exporters that are killed there.

`python -m tests.kafka.exporters STORE STORAGE QUERY DIRECTORY`: be killed in the middle.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from tenure.backends.registry import open_store
from tenure.checkpoints.checkpoint import Checkpoint
from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.events import Events
from tenure.moves import plain_checkpoint
from tenure.rundirs.seeding import seed
from tenure.rundirs.state_copy import SeedPoint
from tenure.scope_context import ScopeContext
from tests.crash.cluster import SCOPE
from tests.kit.waiting import NEVER_S

TTL = timedelta(seconds=5)


def export(store: str, storage: str, query: str, directory: str, *, in_the_middle: Callable[[], None]) -> Checkpoint:
    """Export. `in_the_middle` is called under the lock, before the first file is copied."""

    def seed_then(source: str, target: str, point: SeedPoint, **said: Any) -> None:
        in_the_middle()
        seed(source, target, point, **said)

    clock = SystemClock()
    with (
        closing(open_store(store, clock=clock)) as opened,
        SessionKeeper(opened, ttl=TTL, clock=clock) as keeper,
        patch.object(plain_checkpoint, "seed", seed_then),
    ):
        context = ScopeContext(opened, Scope(SCOPE), f"{storage}/{SCOPE}", clock, Events.nobody)
        patience = timedelta(seconds=NEVER_S)
        return plain_checkpoint.export(context, directory, query=query, session=keeper.session_id, patience=patience)


if __name__ == "__main__":
    export(*sys.argv[1:], in_the_middle=lambda: os.kill(os.getpid(), signal.SIGKILL))
