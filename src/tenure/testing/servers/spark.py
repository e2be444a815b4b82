"""Real servers for tests: started on loopback, ended with the block, nothing left behind.

Promise: `start` returns when the server can be used, on ports that nobody else had. Every process of it is in a group
that is killed at the end, also when the block fails.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tenure.pipelines.processes import processes
from tenure.testing.waiting import wait_until

_STARTS_WITHIN = timedelta(seconds=60)
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_PAGE = re.compile(r"Bound MasterWebUI to \S+, and started at (http://\S+)")


class SparkStandalone:
    """A standalone cluster of Spark: a master and workers, from the Spark that PySpark brings."""

    def __init__(self, folder: Path, *, workers: int = 2, cores: int = 2, memory: str = "2g") -> None:
        """`cores` and `memory` of each worker, whatever the machine has; logs and work go below `folder`."""
        self._folder = folder
        self._workers = workers
        self._cores = cores
        self._memory = memory
        self._started: list[subprocess.Popen[bytes]] = []
        self.url = ""
        """What `--master` takes; empty: not started."""
        self._page = ""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the master and the workers, and wait until the master knows all of them."""
        log = self._run("master.Master", "master", ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"])
        self.url = wait_until(lambda: _found(_MASTER, log), _STARTS_WITHIN, what="Spark's master")
        self._page = wait_until(lambda: _found(_PAGE, log), _STARTS_WITHIN, what="the master's page")
        for number in range(self._workers):
            arguments = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", str(self._cores)]
            arguments += ["--memory", self._memory, "--work-dir", str(self._folder / f"work{number}"), self.url]
            self._run("worker.Worker", f"worker{number}", arguments)
        wait_until(lambda: self.told()["aliveworkers"] == self._workers, _STARTS_WITHIN, what="Spark's workers")

    def close(self) -> None:
        """End it, executors included."""
        for process in reversed(self._started):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._started.clear()

    def told(self) -> Mapping[str, Any]:
        """What the master tells of itself: `aliveworkers`, `activeapps`, `completedapps`, ..."""
        with urllib.request.urlopen(f"{self._page}/json/", timeout=10) as answer:
            found: Mapping[str, Any] = json.load(answer)
        return found

    def applications(self) -> dict[str, str]:
        """The applications that run: id -> name."""
        return {app["id"]: app["name"] for app in self.told()["activeapps"]}

    def executors(self, application: str) -> list[int]:
        """The processes of an application's executors."""
        found = []
        for one in processes():
            with suppress(OSError):  # it has ended
                command = Path(f"/proc/{one.pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
                if application in command and any("CoarseGrainedExecutorBackend" in word for word in command):
                    found.append(one.pid)
        return found

    def _run(self, kind: str, name: str, arguments: list[str]) -> Path:
        spark = find_spec("pyspark")
        assert spark is not None, "pyspark is not installed"
        assert spark.origin is not None
        home = Path(spark.origin).parent
        log = self._folder / f"{name}.log"
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        with log.open("ab") as output:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )
        self._started.append(process)
        return log


def _found(pattern: re.Pattern[str], log: Path) -> str:
    """What the log says; empty: nothing yet."""
    match = pattern.search(log.read_text(errors="replace"))
    return "" if match is None else match[1]
