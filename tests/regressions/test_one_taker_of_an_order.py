"""An order that threads of a member found at the same time was read by one after another had removed it: the member
ended with `FileNotFoundError`, and a soak's story with it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.kit.waiting import NEVER_S
from tests.support import launch

THREADS, ROUNDS = 4, 50


def test_of_threads_at_one_step_one_takes_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = tmp_path / "anna.order"
    obeyed: list[Mapping[str, str]] = []
    faults = launch.Faults({"order": str(order)})
    monkeypatch.setattr(faults, "_obey", obeyed.append)
    barrier = threading.Barrier(THREADS, timeout=NEVER_S)

    def come(_: int) -> None:
        with_order = json.dumps({"step": "before plan"})
        for _ in range(ROUNDS):
            if barrier.wait() == 0:
                order.write_text(with_order)
            barrier.wait()
            try:
                faults.at("before plan")
            except BaseException:
                barrier.abort()
                raise

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(come, number) for number in range(THREADS)]:
            assert done.exception() is None
    assert len(obeyed) == ROUNDS
