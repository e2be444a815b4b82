"""Counts the requests of an S3 client, by a gate before the server, and says which part of a pipeline each is of; and
the calls to a NameNode, by its own counters.

Promise: the gate passes each request on, after a delay if one is asked for. A request belongs to the part that its key,
its prefix, or for a removal of many its client names.
"""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from tests.kit.servers import SeaweedFs
from tests.s3 import Gate

STAGING, DELTA, SPARK, RUNS, REHEARSAL, OTHER = (
    "staged Parquet files",
    "Delta's log",
    "Spark's checkpoint",
    "run directories, by Tenure",
    "rehearsals",
    "other",
)
PARTS: Final = (STAGING, DELTA, SPARK, RUNS, REHEARSAL, OTHER)


@dataclass(frozen=True, slots=True)
class Request:
    """A request that passed. `at_s`: on the clock of `time.monotonic`."""

    at_s: float
    method: str
    path: str
    agent: str

    @property
    def key(self) -> str:
        """The key, or for a listing its prefix."""
        url = urlsplit(self.path)
        prefix = parse_qs(url.query).get("prefix", [""])[0]
        return prefix or unquote(url.path).lstrip("/").partition("/")[2]

    @property
    def kind(self) -> str:
        """The method; a listing and a copy by these names."""
        return "LIST" if self.method == "GET" and "list-type" in self.path else self.method

    def part(self, *, scope: str, tables: Collection[str]) -> str:
        """The part of the pipeline. `tables`: their keys."""
        key = f"{self.key.rstrip('/')}/"
        if f"/tenure-{scope}/" in key:
            return STAGING
        if any(key.startswith(f"{table}/") for table in tables):
            return DELTA if "/_delta_log/" in key or "object_store" in self.agent else STAGING
        if f"{scope}/rehearsals/" in key:
            return REHEARSAL
        if f"{scope}/runs/" in key:
            return SPARK if "Hadoop" in self.agent else RUNS
        return OTHER


class Counted(Gate):
    """A gate that counts. `delay_s`: before each request."""

    def __init__(self, server: SeaweedFs, *, delay_s: float = 0.0) -> None:
        super().__init__(server)
        self.delay_s = delay_s
        self.requests: list[Request] = []

    def handle(self, request: BaseHTTPRequestHandler, port: int) -> None:
        agent = str(request.headers.get("User-Agent"))
        self.requests.append(Request(time.monotonic(), request.command, request.path, agent))
        if self.delay_s:
            time.sleep(self.delay_s)
        try:
            super().handle(request, port)
        except ConnectionError:  # the client has gone, with its process or by itself
            request.close_connection = True


def parts_of(requests: Sequence[Request], *, scope: str, tables: Collection[str]) -> Counter[str]:
    """How many requests of each part."""
    return Counter(request.part(scope=scope, tables=tables) for request in requests)


def name_node_calls(page: str) -> int:
    """How many calls a NameNode has answered, but for those of DataNodes. `page`: its web address."""
    with urllib.request.urlopen(f"{page}/jmx?qry=Hadoop:service=NameNode,name=RpcDetailedActivityForPort*") as answer:
        (counted,) = json.load(answer)["beans"]
    calls = {name.removesuffix("NumOps"): number for name, number in counted.items() if name.endswith("NumOps")}
    return sum(number for name, number in calls.items() if name not in _OF_DATA_NODES and not _AGAIN.search(name))


_AGAIN: Final = re.compile(r"^(Overall|Deferred)|Exception$")
"""Counters of calls that another counter has, too."""

_OF_DATA_NODES: Final = frozenset(
    {
        *("RegisterDatanode", "SendHeartbeat", "SendLifeline", "BlockReport", "BlockReceivedAndDeleted", "CacheReport"),
        *("VersionRequest", "CommitBlockSynchronization", "ErrorReport", "ReportBadBlocks"),
    }
)
