"""Executors in pods without a kubelet: processes with the commands and the variables of the pods that Spark makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.house.test_deploy import DEPLOY
from tests.kit.process import GroupProcess
from tests.kit.servers import KubernetesServer


class Executors:
    """Starts the container of each pod that Spark makes, as a kubelet would: its command and its variables."""

    def __init__(self, server: KubernetesServer, namespace: str, folder: Path) -> None:
        self._server = server
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._folder = folder
        self.started: dict[str, GroupProcess] = {}

    def pods(self) -> list[dict[str, Any]]:
        return [
            pod for pod in self._server.ask("GET", self._pods)["items"] if "spark-role" in pod["metadata"]["labels"]
        ]

    def start_new(self) -> None:
        for pod in self.pods():
            name, (container,) = pod["metadata"]["name"], pod["spec"]["containers"]
            if name in self.started:
                continue
            (folder := self._folder / name).mkdir()
            said = {one["name"]: one["value"] for one in container["env"] if "value" in one}
            pod_s = {"SPARK_EXECUTOR_POD_IP": "127.0.0.1", "SPARK_EXECUTOR_POD_NAME": name}
            within = ("env", "-C", str(folder))  # an executor leaves jars where it is started
            command = [*within, str(DEPLOY / "executor.sh"), *container["args"]]
            assert Path(container["command"][-1]).name == "tenure-executor"
            process = GroupProcess(
                command, log=folder / "log", environment={**said, **pod_s, "SPARK_LOCAL_DIRS": str(folder)}
            )
            process.start()
            self.started[name] = process

    def kill(self) -> None:
        for process in self.started.values():
            process.kill()
