"""Where the members of `bench.storage` read and write: S3, HDFS, or a folder of the disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

from bench.storage_requests import Counted, name_node_calls
from tests.kit.servers import Hdfs, SeaweedFs
from tests.kit.servers.connectors import ivy_folder
from tests.kit.servers.seaweedfs import BUCKET, environment, s3a_settings

STORAGES: Final = ("file", "s3", "hdfs")
QUERIES: Final = ("rows", "counts")
CONF: Final = {"spark.sql.shuffle.partitions": "1"}


class Place:
    """S3, which a member reaches by a gate of its own; HDFS; or a folder of the disk."""

    def __init__(self, folder: Path, server: SeaweedFs | Hdfs | None, *, delay_s: float) -> None:
        self._s3 = server if isinstance(server, SeaweedFs) else None
        self._hdfs = server if isinstance(server, Hdfs) else None
        self._delay_s = delay_s
        self._open = ExitStack()
        self.root = f"file://{folder}"
        if self._s3 is not None:
            self.root = f"s3a://{BUCKET}/bench"
        elif self._hdfs is not None:
            self.root = f"{self._hdfs.url}/bench"
        self.gates: list[Counted] = []
        self.tables = [f"bench/output/{query}" for query in QUERIES]

    def gate(self) -> Counted | None:
        """A new gate; None: there is none on a disk or before HDFS."""
        if self._s3 is None:
            return None
        self.gates.append(self._open.enter_context(Counted(self._s3, delay_s=self._delay_s)))
        return self.gates[-1]

    def requests(self) -> int:
        """How many requests of all members there were so far; 0 on a disk."""
        if self._hdfs is not None:
            return name_node_calls(self._hdfs.page)
        return sum(len(gate.requests) for gate in self.gates)

    def requests_of(self, gate: int) -> int:
        """How many requests passed one gate, by its number; 0 where there are no gates."""
        return len(self.gates[gate].requests) if self.gates else 0

    def environment(self, gate: Counted | None) -> Mapping[str, str]:
        """The variables of a process behind this gate."""
        return {} if gate is None else {**environment(gate.url), "AWS_ALLOW_HTTP": "true"}

    @property
    def own_environment(self) -> Mapping[str, str]:
        """The variables of this process, which goes to the server itself."""
        return {} if self._s3 is None else {**environment(self._s3.url), "AWS_ALLOW_HTTP": "true"}

    def conf(self, gate: Counted | None) -> dict[str, str]:
        """The settings of Spark behind this gate."""
        if gate is None:
            return dict(CONF)
        return {
            **CONF,
            "spark.jars.ivy": str(ivy_folder()),
            **{f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a_settings(gate.url).items()},
        }

    def close(self) -> None:
        """Close the gates."""
        self._open.close()


@contextmanager
def place_of(storage: str, folder: Path, *, delay_s: float) -> Iterator[Place]:
    """A place of a kind, and its server. Raises NotInstalled."""
    with ExitStack() as stack:
        server: SeaweedFs | Hdfs | None = None
        if storage == "s3":
            server = stack.enter_context(SeaweedFs(folder / "s3", volume_mb=1024))
        elif storage == "hdfs":
            server = stack.enter_context(Hdfs(folder / "hdfs"))
        yield stack.enter_context(closing(Place(folder, server, delay_s=delay_s)))
