"""A real HDFS on loopback: one NameNode and one DataNode, from Hadoop's own jar (`scripts/setup.sh hdfs`).

Promise: `start` returns when a file can be written. The servers write nothing outside the folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.kit.process import GroupProcess
from tests.kit.servers.process import Servers, free_ports
from tests.kit.servers.programs import jvm, need

_SERVERS: Final = ("namenode.NameNode", "datanode.DataNode")


class Hdfs(Servers):
    """The two servers; data and logs go below `folder`."""

    def __init__(self, folder: Path) -> None:
        name, name_page, data, data_page, data_calls = free_ports(5)
        self.url: Final = f"hdfs://127.0.0.1:{name}"
        """Of the root."""
        self.page: Final = f"http://127.0.0.1:{name_page}"
        """The web address of the NameNode."""
        settings = {
            "fs.defaultFS": self.url,
            "dfs.replication": "1",
            "dfs.permissions.enabled": "false",
            "dfs.namenode.name.dir": str(folder / "name"),
            "dfs.namenode.safemode.extension": "0",  # after a restart; 30 s otherwise
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
        options = [part for name, value in settings.items() for part in ("-D", f"{name}={value}")]
        flags = (f"-Djava.io.tmpdir={folder / 'tmp'}",)
        mains = [f"org.apache.hadoop.hdfs.server.{server}" for server in _SERVERS]
        commands = [jvm(main, *options, jars=_jar(), flags=flags) for main in mains]
        made = subprocess.run([*commands[0], "-format", "-force"], check=False, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr[-2000:]
        self.nodes = tuple(
            GroupProcess(command, log=folder / f"log{number}") for number, command in enumerate(commands)
        )

    def answers(self, number: int) -> bool:
        """Whether the NameNode (0) lists the root; whether a file can be written to the DataNode (1)."""
        from hdfs_native import Client, WriteOptions

        client = Client(self.url, {"ipc.client.connect.max.retries": "0"})
        try:
            if number == 0:
                list(client.list_status("/"))
                return True
            # Where the DataNode was late, an earlier probe has left its name.
            with client.create("/.probe", WriteOptions(overwrite=True)) as file:
                file.write(b"x")
            client.delete("/.probe")
        except (OSError, RuntimeError):
            return False
        return True


def _jar() -> str:
    folder = Path(os.environ.get("TENURE_TEST_HDFS") or Path(sys.prefix) / "hdfs" / "jars")
    jars = sorted(map(str, folder.glob("*hadoop-client-minicluster-*.jar")))
    return need(jars, "HDFS", fix="run scripts/setup.sh hdfs, or set TENURE_TEST_HDFS to the folder of its jar")[-1]
