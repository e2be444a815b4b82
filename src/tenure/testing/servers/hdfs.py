"""A real HDFS on loopback: one NameNode and one DataNode, from Hadoop's own jar (`scripts/setup.sh hdfs`).

Promise: `start` returns when a file can be written. Nothing is left outside the folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tenure.testing.servers.process import ServerProcess, Servers, free_ports, need
from tenure.testing.servers.zookeeper import java, spark_jars

_FLAGS: Final = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
_NAME_NODE: Final = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATA_NODE: Final = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_JARS: Final = "hadoop-client-minicluster-*.jar"


class Hdfs(Servers):
    """The two servers; data and logs go below `folder`."""

    def __init__(self, folder: Path) -> None:
        name, name_page, data, data_page, data_calls = free_ports(5)
        self.url: Final = f"hdfs://127.0.0.1:{name}"
        """Of its root."""
        settings = {
            "fs.defaultFS": self.url,
            "dfs.replication": "1",
            "dfs.permissions.enabled": "false",
            "dfs.namenode.name.dir": str(folder / "name"),
            "dfs.namenode.http-address": f"127.0.0.1:{name_page}",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.datanode.data.dir": str(folder / "data"),
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.datanode.address": f"127.0.0.1:{data}",
            "dfs.datanode.http.address": f"127.0.0.1:{data_page}",
            "dfs.datanode.ipc.address": f"127.0.0.1:{data_calls}",
        }
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tmp").mkdir()
        commands = [_command(main, settings, folder / "tmp") for main in (_NAME_NODE, _DATA_NODE)]
        made = subprocess.run([*commands[0], "-format", "-force"], check=False, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr[-2000:]
        self.nodes = tuple(
            ServerProcess(command, log=folder / f"log{number}") for number, command in enumerate(commands)
        )

    def answers(self, number: int) -> bool:
        """The NameNode, whether it lists the root; the DataNode, whether a file can be written."""
        from hdfs_native import Client

        client = Client(self.url, {"ipc.client.connect.max.retries": "0"})
        try:
            if number == 0:
                list(client.list_status("/"))
                return True
            with client.create("/.probe") as file:
                file.write(b"x")
            client.delete("/.probe")
        except (OSError, RuntimeError):
            return False
        return True


def _command(main: str, settings: Mapping[str, str], scratch: Path) -> list[str]:
    """`main` with settings, from the jar of the tests and those that PySpark brings."""
    folder = Path(os.environ.get("TENURE_TEST_HDFS") or Path(sys.prefix) / "hdfs" / "jars")
    found = sorted(folder.glob(f"*{_JARS}"))
    need(bool(found), "HDFS", fix="run scripts/setup.sh hdfs, or set TENURE_TEST_HDFS to the folder of its jar")
    options = [part for name, value in settings.items() for part in ("-D", f"{name}={value}")]
    return [java(), *_FLAGS, f"-Djava.io.tmpdir={scratch}", "-cp", f"{found[-1]}:{spark_jars()}", main, *options]
