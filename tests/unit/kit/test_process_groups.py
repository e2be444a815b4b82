"""A group that is paused runs no further once `pause` has returned, on whatever core its threads were."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.kit.process import GroupProcess, is_stopped
from tests.kit.waiting import wait_until

BUSY = """
import hashlib, sys, threading
data = bytes(1 << 24)
def work():
    while True:
        hashlib.sha256(data)  # without the interpreter's lock
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
print("busy", flush=True)
work()
"""


def test_each_thread_of_a_paused_group_is_stopped(tmp_path: Path) -> None:
    group = GroupProcess([sys.executable, "-c", BUSY], log=tmp_path / "log")
    group.start()
    try:
        wait_until(lambda: "busy" in group.output())
        for _ in range(20):
            group.pause()
            assert is_stopped(group.pid)
            group.wake()
            wait_until(lambda: not is_stopped(group.pid))
    finally:
        group.kill()
