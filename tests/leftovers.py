"""Finds the processes that a test session started and left running: drivers, JVMs, servers.

Promise: a process counts as the session's when it carries the session's mark in its environment (children
inherit it, also those that lost their parent) or descends from the session's process. Processes of another
session on the same machine are never touched. A process that clears its environment and leaves its parent
is not found.
"""

from __future__ import annotations

import os
import sys
import uuid

import psutil

from tests.kit.waiting import NEVER_S

MARK_NAME = "TENURE_TEST_SESSION"


def mark_session() -> str:
    """Mark all processes that are started from here on; return the mark."""
    mark = uuid.uuid4().hex
    os.environ[MARK_NAME] = mark
    return mark


def end_own_jvm() -> None:
    """End the JVM behind SparkSessions made in this process: stopping a session leaves it, by design of Spark."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None or SparkContext._active_spark_context is not None:
        return  # a session that nobody stopped is a leftover, and its JVM will be counted
    process = gateway.proc
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    if process.stdin is not None:
        process.stdin.close()  # the JVM watches its input and ends when it closes
    process.wait(timeout=NEVER_S)


def _is_marked(process: psutil.Process, mark: str) -> bool:
    try:
        return bool(process.environ().get(MARK_NAME) == mark)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False  # gone, or somebody else's


def find_leftovers(mark: str, *, grace_s: float = 10.0) -> list[psutil.Process]:
    """The session's processes that still run after `grace_s`, in which those that are ending may end."""
    own = psutil.Process()
    found = {process.pid: process for process in psutil.process_iter() if _is_marked(process, mark)}
    found |= {process.pid: process for process in own.children(recursive=True)}
    found.pop(own.pid, None)
    running = [process for process in found.values() if process.is_running()]
    _, alive = psutil.wait_procs(running, timeout=grace_s)
    return [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def end(processes: list[psutil.Process]) -> list[str]:
    """Kill the processes, paused ones too; return a line on each for the report."""
    lines = []
    for process in processes:
        try:
            lines.append(f"{process.pid} {' '.join(process.cmdline())[:160]}")
            process.kill()
        except psutil.NoSuchProcess:
            continue
    return lines
