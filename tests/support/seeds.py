"""Announces the parts of a seed, so that a test can stop the seed at any of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from tenure.rundirs import seeding

PARTS = ("offsets", "commits", "sources", "state", "plan", "metadata")


@contextmanager
def announced(at: Callable[[str], None]) -> Iterator[None]:
    """Call `at` with "before PART" and "after PART" for each part of a seed that this thread makes in the block."""
    thread = threading.get_ident()

    def around(name: str) -> Callable[[Any], None]:
        part = getattr(seeding._Seed, name)

        def announce(seed: Any) -> None:
            if threading.get_ident() != thread:
                part(seed)
                return
            at(f"before {name}")
            part(seed)
            at(f"after {name}")

        return announce

    with ExitStack() as patches:
        for name in PARTS:
            patches.enter_context(patch.object(seeding._Seed, name, around(name)))
        yield
