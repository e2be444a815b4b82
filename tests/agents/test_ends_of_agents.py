"""An agent that is killed, or sleeps with its machine: what becomes of its driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from tests.agents.scene import Scene, all_gone
from tests.kit.members import pause_process
from tests.kit.waiting import NEVER_S, Deadline, wait_until

AGENT = """
import sys, threading
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.agents.scene import Scene
scene = Scene(Path(sys.argv[2]))
scene.ready(lead=sys.argv[3]).lead(scene.term(), stop=threading.Event(), finish=scene.finish)
"""


@pytest.mark.parametrize("lead", ["obey", "disobey", "hold", "seize"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_driver_and_all_that_it_started_end_with_their_agent(tmp_path: Path, number: int, lead: str) -> None:
    root = Path(__file__).parents[2]
    agent = subprocess.Popen([sys.executable, "-c", AGENT, str(root), str(tmp_path), lead])
    processes: list[psutil.Process] = []
    try:
        processes = Scene(tmp_path).processes()
        os.kill(agent.pid, number)
        agent.wait(timeout=NEVER_S)
        # The workers of another group end with their JVM in Spark; here nothing tells them.
        wait_until(lambda: all_gone(processes[:2]), what="the end of driver and JVM")
    finally:
        agent.kill()
        agent.wait()
        for workers in processes[2:]:
            workers.kill()


ASLEEP = """
import sys, threading
from datetime import timedelta
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.agents.scene import Scene
scene = Scene(Path(sys.argv[2]))
driver = scene.ready(silence=3, pulse="moving")
print(driver.lead(scene.term(seconds=14), stop=threading.Event(), finish=scene.finish), flush=True)
driver.kill()
"""


def test_a_pause_of_the_whole_machine_is_not_the_drivers_silence(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", ASLEEP, str(root), str(tmp_path)]
    agent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    started: list[psutil.Process] = []
    try:
        driver, *started = Scene(tmp_path).processes()
        pause_process(agent.pid)
        pause_process(driver.pid)
        asleep = Deadline(timedelta(seconds=5))
        while not asleep.over:
            asleep.pause(timedelta(seconds=1))
        os.kill(agent.pid, signal.SIGCONT)  # the agent first: it must not judge at once
        os.kill(driver.pid, signal.SIGCONT)
        assert agent.stdout is not None
        assert agent.stdout.readline() == "Ended.LOST\n", "it led until its term was over"
    finally:
        agent.kill()
        agent.wait()
        if agent.stdout is not None:
            agent.stdout.close()
        for process in started:
            if process.is_running():
                process.kill()
