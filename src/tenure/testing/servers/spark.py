"""A real standalone cluster of Spark on loopback, from the Spark that PySpark brings.

Promise: `start` returns when the master knows every worker. The master's ports are the ones that it found free, so its
address is known once it runs. Executors are in their worker's group, and end with it.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tenure.agent.processes import processes
from tenure.testing.servers.process import ServerProcess, Servers
from tenure.testing.waiting import NEVER_S

_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_PAGE = re.compile(r"Bound MasterWebUI to \S+, and started at (http://\S+)")


class SparkStandalone(Servers):
    """A master, which is node 0, and workers."""

    def __init__(self, folder: Path, *, workers: int) -> None:
        """Each worker has two cores and 2 GB, whatever the machine has; logs and work go below `folder`."""
        self._folder = folder
        self._workers = workers

    @property
    def url(self) -> str:
        """What `--master` takes."""
        return self._said(_MASTER)

    def start(self) -> None:
        """Start the master and the workers, and wait until the master knows all of them."""
        ports = ["--port", "0", "--webui-port", "0"]
        self.nodes = (self._node("master.Master", "master", ["--host", "127.0.0.1", *ports]),)
        super().start()
        self.nodes += tuple(map(self._worker, range(self._workers)))
        super().start()

    def answers(self, number: int) -> bool:
        """The master, whether it has an address; a worker, whether the master knows all workers."""
        if number == 0:
            return bool(self._said(_MASTER) and self._said(_PAGE))
        return bool(self.told()["aliveworkers"] == self._workers)

    def told(self) -> Mapping[str, Any]:
        """What the master tells of itself: `aliveworkers`, `activeapps`, `completedapps`, ..."""
        with urllib.request.urlopen(f"{self._said(_PAGE)}/json/", timeout=NEVER_S) as answer:
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

    def _worker(self, number: int) -> ServerProcess:
        arguments = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "2"]
        arguments += ["--memory", "2g", "--work-dir", str(self._folder / f"work{number}"), self.url]
        return self._node("worker.Worker", f"worker{number}", arguments)

    def _node(self, kind: str, name: str, arguments: list[str]) -> ServerProcess:
        spark = find_spec("pyspark")
        assert spark is not None, "pyspark is not installed"
        assert spark.origin is not None
        home = Path(spark.origin).parent
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
        environment = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        return ServerProcess(command, log=self._folder / f"{name}.log", environment=environment)

    def _said(self, pattern: re.Pattern[str]) -> str:
        """What the master's log says; empty: nothing yet."""
        match = pattern.search(self.nodes[0].log.read_text(errors="replace"))
        return "" if match is None else match[1]
