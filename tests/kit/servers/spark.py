"""A real standalone cluster of Spark on loopback, from PySpark.

Promise: `start` returns when the master knows every worker. The master chooses its ports, so its address is known once
the master runs. Executors are in their worker's group, and end with the worker.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tenure.agent.processes import processes
from tests.kit.process import GroupProcess
from tests.kit.servers.process import Servers
from tests.kit.servers.programs import spark_home
from tests.kit.waiting import NEVER_S

_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_PAGE = re.compile(r"Bound MasterWebUI to \S+, and started at (http://\S+)")


class SparkStandalone(Servers):
    """A master, which is node 0, and workers. Logs and work go below `folder`."""

    def __init__(self, folder: Path, *, workers: int, unshared: Path | None = None) -> None:
        """Each worker offers two cores and 2 GB, on any machine. `unshared`: a folder that workers and executors have
        empty and for themselves, as on hosts that do not mount it; only root may have one."""
        self._folder = folder
        self._workers = workers
        self._unshared = unshared

    @property
    def url(self) -> str:
        """For `--master`."""
        return self._logged(_MASTER)

    def start(self) -> None:
        """Start the master and the workers, and wait until the master knows all of them."""
        ports = ["--port", "0", "--webui-port", "0"]
        self.nodes = (self._node("master.Master", "master", ["--host", "127.0.0.1", *ports]),)
        super().start()
        self.nodes += tuple(map(self._worker, range(self._workers)))
        super().start()

    def answers(self, number: int) -> bool:
        """Whether the master has an address; of a worker, whether the master knows all workers."""
        if number == 0:
            return bool(self._logged(_MASTER) and self._logged(_PAGE))
        return bool(self._status()["aliveworkers"] == self._workers)

    def _status(self) -> Mapping[str, Any]:
        """The master's page as data: `aliveworkers`, `activeapps`, ..."""
        with urllib.request.urlopen(f"{self._logged(_PAGE)}/json/", timeout=NEVER_S) as answer:
            return dict(json.load(answer))

    def applications(self) -> dict[str, str]:
        """The running applications: id -> name."""
        return {app["id"]: app["name"] for app in self._status()["activeapps"]}

    def executors(self, application: str) -> list[int]:
        """The processes of an application's executors."""
        found = []
        for one in processes():
            with suppress(OSError):  # the process has ended
                command = Path(f"/proc/{one.pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
                if application in command and any("CoarseGrainedExecutorBackend" in word for word in command):
                    found.append(one.pid)
        return found

    def _worker(self, number: int) -> GroupProcess:
        arguments = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "2"]
        arguments += ["--memory", "2g", "--work-dir", str(self._folder / f"work{number}"), self.url]
        return self._node("worker.Worker", f"worker{number}", arguments, unshared=self._unshared)

    def _node(self, kind: str, name: str, arguments: list[str], *, unshared: Path | None = None) -> GroupProcess:
        home = spark_home()
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
        if unshared is not None:
            script = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", script, str(unshared), *command]
        environment = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        return GroupProcess(command, log=self._folder / f"{name}.log", environment=environment)

    def _logged(self, pattern: re.Pattern[str]) -> str:
        """The first group of the pattern in the master's output; empty: not printed yet."""
        match = pattern.search(self.nodes[0].output())
        return "" if match is None else match[1]
