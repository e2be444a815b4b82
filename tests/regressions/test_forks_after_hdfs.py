"""A process that has reached HDFS forks, and the child hung before its first line.

fsspec drops its cached file systems in a forked child. The end of a client of hdfs-native waits there for threads that
the fork has not taken along. So clients of HDFS are not in fsspec's cache.
"""

from __future__ import annotations

import os
import signal

from tenure.storage.reach import reach
from tests.kit.waiting import wait_until


def test_a_child_of_a_process_that_has_reached_hdfs_runs() -> None:
    reach("hdfs://127.0.0.1:1/x")
    child = os.fork()
    if child == 0:
        os._exit(0)
    ended: list[int] = []

    def has_ended() -> bool:
        process, status = os.waitpid(child, os.WNOHANG)
        if process:
            ended.append(os.waitstatus_to_exitcode(status))
        return bool(ended)

    try:
        wait_until(has_ended, what="the end of the child")
    finally:
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert ended == [0]


def test_a_child_has_a_client_of_its_own() -> None:
    ours = reach("hdfs://127.0.0.1:1/x")
    assert vars(reach("hdfs://127.0.0.1:1/y"))["fs"] is vars(ours)["fs"]
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, str(id(vars(reach("hdfs://127.0.0.1:1/x"))["fs"])).encode("ascii"))
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(read, 100)) != id(vars(ours)["fs"])
