"""Where the demo's pipeline reads from and writes to: folders, or a broker of Kafka, an S3 server, HDFS or a database.

Promise: the servers run inside of `ground`, on loopback, with all their files below the demo's folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from unittest.mock import patch

from demo.outputs import CATALOG, catalog
from tests.kit.servers import BUCKET, Hdfs, KafkaServer, MariaDbServer, PostgresServer, SeaweedFs
from tests.kit.servers.connectors import ivy_folder
from tests.kit.servers.mariadb import environment as environment_of_mariadb
from tests.kit.servers.postgres import environment as environment_of_postgres
from tests.kit.servers.seaweedfs import environment

SOURCES: Final = ("files", "kafka")
STORAGES: Final = ("file", "s3", "hdfs")
TOPIC: Final = "flights"


@dataclass(frozen=True)
class Ground:
    """`storage`, `output`: URLs. `params`, `connectors`: of `tenure run`. `broker`: None: the source is a folder."""

    storage: str
    output: str
    params: Mapping[str, str]
    connectors: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    broker: KafkaServer | None = None
    sink: str = "delta"
    """One of `SINKS` of `outputs.py`."""
    database: str = ""
    """The URL of a database of PostgreSQL, for who needs one."""
    mysql: MariaDbServer | None = None
    """The server of MySQL's tables, for who needs one."""
    topics: KafkaServer | None = None
    """The broker of the topics that queries write to, for who needs one."""
    lake: SeaweedFs | None = None
    """The server of Iceberg tables and of their catalog, for who needs one."""

    @property
    def source(self) -> str:
        """One of `SOURCES`."""
        return "files" if self.broker is None else "kafka"

    @property
    def arguments(self) -> list[str]:
        """For `tenure run`."""
        words = ["--storage", self.storage]
        for name, value in {**self.params, "output": self.output, "sink": self.sink}.items():
            words += ["--param", f"{name}={value}"]
        for name in self.connectors:
            words += ["--connector", name]
        for name, value in self.conf.items():
            words += ["--conf", f"{name}={value}"]
        return words


@contextmanager
def ground(source: str, storage: str, folder: Path, *, sink: str = "delta") -> Iterator[Ground]:
    """Start what is needed. This process and its children reach S3 by their environment. Raises NotInstalled."""
    with ExitStack() as stack:
        root = f"file://{folder}"
        if storage == "s3":
            server = stack.enter_context(SeaweedFs(folder / "seaweedfs"))
            stack.enter_context(patch.dict(os.environ, environment(server.url)))
            root = f"s3://{BUCKET}"
        elif storage == "hdfs":
            root = f"{stack.enter_context(Hdfs(folder / 'hdfs')).url}/demo"
        broker = None
        params = {"input": str(folder / "input")}
        if source == "kafka":
            broker = stack.enter_context(KafkaServer(folder / "kafka"))
            broker.make_topic(TOPIC)
            params = {"brokers": broker.address, "topic": TOPIC}
        names = [name for name, used in (("kafka", broker is not None), ("s3", storage == "s3")) if used]
        conf = {"spark.jars.ivy": str(ivy_folder())} if names else {}
        output = str(folder / "output") if storage == "file" else f"{root}/output"
        if sink == "kafka":
            target = stack.enter_context(KafkaServer(folder / "target"))
            for table in ("flights", "hourly"):
                target.make_topic(table)
            output = target.address
        elif sink == "postgres":
            output = stack.enter_context(PostgresServer(folder / "postgres")).url
            stack.enter_context(patch.dict(os.environ, environment_of_postgres()))
        elif sink == "mysql":
            output = stack.enter_context(MariaDbServer(folder / "mysql")).url
            stack.enter_context(patch.dict(os.environ, environment_of_mariadb()))
        elif sink == "iceberg":
            properties = {
                "TYPE": "sql",
                "URI": f"sqlite:///{folder}/catalog.db",
                "WAREHOUSE": f"file://{folder}/output",
            }
            variables = {f"PYICEBERG_CATALOG__DEMO__{name}": value for name, value in properties.items()}
            stack.enter_context(patch.dict(os.environ, variables))
            catalog().create_namespace(CATALOG)
        yield Ground(f"{root}/storage", output, params, tuple(names), conf, broker, sink)
