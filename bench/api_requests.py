"""How many requests a pipeline makes of the API server of Kubernetes: a batch, and while nothing happens.

Three members, a leader and two warm standbys, run two queries on a real API server under an account of their own. The
server's audit log says which requests that account made, and which of them it answered with a conflict.

- `batches`: `--batches` files arrive one after the other. Updates of the ConfigMap, reads of it, requests for Leases
  beside renewals, and conflicts, each by batch.
- `idle`: nothing arrives for `--idle` seconds. All requests by kind, by second; a watch is opened again when it ends.
- `size`: bytes of the ConfigMap's data after the batches, and after `--planned` checkpoints of both queries, planned
  without Spark.

Flink's HA on Kubernetes is named beside it, not run: by its code, a checkpoint is 8 requests.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from rich.console import Console
from rich.table import Table

from bench.harness import RESULTS, describe_machine
from tenure.backends.registry import open_store
from tenure.checkpoints.checkpoint import Checkpoint
from tenure.clock import SystemClock, timestamp
from tenure.coordination.candidates import State
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.operate.snapshot import take_snapshot
from tenure.scope_context import ScopeContext
from tests.kit.members import MemberProcess
from tests.kit.servers import KubernetesServer, NotInstalled
from tests.kit.waiting import wait_until
from tests.support.kubernetes import member_account

PIPELINE: Final = Path(__file__).with_name("api_requests_pipeline.py")
POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata"}],
}
TTL_S: Final = 10
STANDBYS: Final = 2
QUIET_S: Final = 5
CONFLICT: Final = 409
FLINK_A_CHECKPOINT: Final = 8


class Audit:
    """The requests of one account, as the server noted them."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "audit.log"
        policy = folder / "audit.json"
        policy.write_text(json.dumps(POLICY), encoding="utf-8")
        self.flags = (f"--audit-policy-file={policy}", f"--audit-log-path={self._log}")
        self.user = ""

    def requests(self) -> list[dict[str, Any]]:
        """All so far, in order."""
        lines = self._log.read_text(encoding="utf-8").splitlines()
        events = [json.loads(line) for line in lines if line.endswith("}")]
        return [event for event in events if event["user"].get("username", "").endswith(f":{self.user}")]


def kinds(events: Sequence[dict[str, Any]]) -> Counter[str]:
    """`verb resource` -> how many. A renewal is an update of a Lease."""
    return Counter(f"{event['verb']} {event['objectRef']['resource']}" for event in events)


class Bench:
    """Three members and the server."""

    def __init__(self, server: KubernetesServer, audit: Audit, folder: Path, console: Console) -> None:
        self._server = server
        self._audit = audit
        self._folder = folder
        self._console = console
        self._namespace = server.new_namespace()
        audit.user = member_account(server, self._namespace)
        config = quote(str(server.kubeconfig(audit.user)))
        self.store = f"kubernetes://{self._namespace}/tenure?kubeconfig={config}"
        self._input = folder / "input"
        self._input.mkdir()
        self._files = 0

    def member(self, name: str) -> MemberProcess:
        """A member that is not started yet."""
        arguments = ["run", str(PIPELINE), "--quiet", "--ttl", f"{TTL_S}s", "--master", "local[2]"]
        arguments += ["--store", self.store, "--storage", f"file://{self._folder}/storage"]
        arguments += ["--param", f"input={self._input}", "--conf", "spark.sql.shuffle.partitions=1"]
        return MemberProcess(name, folder=self._folder, arguments=arguments)

    def feed(self, count: int, leader: MemberProcess) -> None:
        """So many files, each of which is a batch of both queries."""
        for _ in range(count):
            fresh = self._folder / "fresh.json"
            fresh.write_text('{"key":"a"}\n{"key":"b"}\n', encoding="utf-8")
            fresh.rename(self._input / f"{self._files:06}.json")
            self._files += 1
        wanted = 2 * self._files
        self.wait(lambda: len(leader.events("BatchCommitted")) >= wanted, f"{wanted} batches")

    def wait(self, happened: Any, what: str) -> None:
        wait_until(happened, timedelta(minutes=60), what=what)

    def are_warm(self) -> bool:
        with closing(open_store(self.store, clock=SystemClock())) as store:
            picture = take_snapshot(store, Scope("requests"))
            return [member.state for member in picture.members].count(State.WARM) == STANDBYS

    def is_quiet(self) -> bool:
        """Whether the account has asked for no ConfigMap for some seconds."""
        asked = [event for event in self._audit.requests() if event["objectRef"]["resource"] == "configmaps"]
        newest = max(datetime.fromisoformat(event["requestReceivedTimestamp"]) for event in asked)
        return datetime.now(UTC) - newest > timedelta(seconds=QUIET_S)

    def size(self, scope: str) -> int:
        """Bytes of the data of a scope's ConfigMap."""
        path = f"/api/v1/namespaces/{self._namespace}/configmaps/tenure.{scope}"
        data = self._server.ask("GET", path)["data"]
        return sum(len(name) + len(text.encode()) for name, text in data.items())

    def run(self, batches: int, idle_s: int, planned: int) -> dict[str, Any]:
        """All parts; the figures."""
        with ExitStack() as members:
            leader = members.enter_context(self.member("anna"))
            self.wait(lambda: leader.events("TermWon"), "the first term")
            for number in range(STANDBYS):
                members.enter_context(self.member(f"standby-{number}"))
            self.feed(5, leader)
            self.wait(self.are_warm, "warm standbys")
            before = len(self._audit.requests())
            self.feed(batches, leader)
            found = self._audit.requests()[before:]
            conflicts = sum(event["responseStatus"]["code"] == CONFLICT for event in found)
            self._console.print(f"{2 * batches} batches: {dict(kinds(found))}, {conflicts} conflicts")
            size = self.size("requests")
            self.wait(self.are_warm, "warm standbys")
            self.wait(self.is_quiet, "the end of what the last batch left to do")
            before = len(self._audit.requests())
            time.sleep(idle_s)
            quiet = self._audit.requests()[before:]
            self._console.print(f"{idle_s} s idle: {dict(kinds(quiet))}")
        return {
            "batches": 2 * batches,
            "requests": kinds(found),
            "conflicts": conflicts,
            "idle_s": idle_s,
            "idle": kinds(quiet),
            "bytes": size,
            "planned": planned,
            "bytes_after_planned": self.plan(planned),
        }

    def plan(self, count: int) -> int:
        """So many checkpoints of two queries, as the leader plans them; the bytes after the last."""
        clock, scope = SystemClock(), Scope("planned")
        offsets = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1764000000000,"conf":{%s}}\n{"logOffset":%d}\n'
        conf = ",".join(f'"spark.sql.streaming.setting{number:02}":"some value"' for number in range(10))
        with closing(open_store(self.store, clock=clock)) as store:
            context = ScopeContext(store=store, scope=scope, storage=f"file://{self._folder}/planned", clock=clock)
            with SessionKeeper(store, ttl=timedelta(seconds=TTL_S), clock=clock) as keeper:
                term = Election(store, scope, member="bench", clock=clock).campaign(keeper, stop=threading.Event())
                assert term is not None
                for query in ("counts", "rows"):
                    checkpoints = context.checkpoints(query)
                    for batch in range(count):
                        text = offsets % (conf, batch)
                        run = f"runs/{query}/{term.epoch:012}-bench"
                        planned = Checkpoint(query, "a" * 36, batch, text, run, term.epoch, timestamp(clock))
                        checkpoints.plan(term, planned)
        return self.size(scope)


def show(figures: dict[str, Any], console: Console) -> None:
    """The figures as a table."""
    table = Table(title="Requests to the API server")
    for column in ("what", "Tenure", "Flink by its code"):
        table.add_column(column)
    count = figures["batches"]
    requests = figures["requests"]
    updates, reads = requests["update configmaps"], sum(requests[f"{verb} configmaps"] for verb in ("get", "list"))
    table.add_row("requests for the ConfigMap a batch", f"{(updates + reads) / count:.2f}", str(FLINK_A_CHECKPOINT))
    table.add_row("updates among them", f"{updates / count:.2f}", "")
    table.add_row("conflicts in 1,000 batches", f"{1000 * figures['conflicts'] / count:.1f}", "")
    for kind, number in sorted(figures["idle"].items()):
        table.add_row(f"idle: {kind} a second", f"{number / figures['idle_s']:.2f}", "")
    table.add_row("bytes of the ConfigMap", f"{figures['bytes']:,}", "")
    table.add_row(f"bytes after {figures['planned']:,} batches", f"{figures['bytes_after_planned']:,}", "")
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.api_requests", description=__doc__)
    parser.add_argument("--batches", type=int, default=500, help="files, each a batch of two queries")
    parser.add_argument("--idle", type=int, default=600, help="seconds")
    parser.add_argument("--planned", type=int, default=5000, help="checkpoints of each of two queries")
    given = parser.parse_args()
    console = Console()
    machine = describe_machine()
    console.print(str(machine))
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as name:
        folder = Path(name)
        audit = Audit(folder)
        try:
            with KubernetesServer(folder, flags=audit.flags) as server:
                figures = Bench(server, audit, folder, console).run(given.batches, given.idle, given.planned)
        except NotInstalled as missing:
            sys.stderr.write(f"bench: {missing}\n")
            return 2
    show(figures, console)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "api_requests.json").write_text(json.dumps({"machine": str(machine), **figures}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
