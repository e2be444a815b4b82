"""A real Prometheus scrapes two members through a failover and an outage of their store. Each panel has data."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from scripts.dashboards import FLEET, PIPELINE, Panel
from tests.kit.members import MemberProcess
from tests.kit.process import GroupProcess
from tests.kit.servers import installed
from tests.kit.servers.process import free_ports
from tests.kit.servers.programs import program
from tests.kit.waiting import wait_until
from tests.regressions.sparkless import COMMAND

RULES: Final = Path(__file__).parents[2] / "deploy" / "monitoring" / "rules.yml"
WITHIN: Final = "2s"
"""The `for` of every alarm here: a test does not wait for minutes."""


class Site:
    """Two members whose drivers have no Spark, and a Prometheus that scrapes them each second."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.store = folder / "ha.db"
        (folder / "storage").mkdir()
        self.ports = dict(zip(("anna", "ben", "prometheus"), free_ports(3), strict=True))
        self.members = {name: self._member(folder, name) for name in ("anna", "ben")}
        for member in self.members.values():
            stack.enter_context(member)
            member.wait_for("MemberReady")
        rules = folder / "rules.yml"
        rules.write_text(re.sub(r"for: \w+", f"for: {WITHIN}", RULES.read_text(encoding="utf-8")), encoding="utf-8")
        targets = [f"127.0.0.1:{self.ports[name]}" for name in self.members]
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "tenure", "static_configs": [{"targets": targets}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
        prometheus = program("prometheus", "Prometheus", fix="run scripts/setup.sh prometheus")
        flags = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"]
        flags.append(f"--web.listen-address=127.0.0.1:{self.ports['prometheus']}")
        server = GroupProcess([prometheus, *flags], log=folder / "prometheus.log")
        stack.callback(server.kill)
        server.start()

    def _member(self, folder: Path, name: str) -> MemberProcess:
        arguments = ["run", "rows.py", "--store", f"sqlite://{self.store}", "--scope", "rows", "--ttl", "4s"]
        arguments += ["--storage", f"file://{folder}/storage", "--http", f"127.0.0.1:{self.ports[name]}"]
        return MemberProcess(name, folder=folder, arguments=arguments, command=COMMAND)

    def ask(self, path: str) -> Any:
        """Prometheus' answer; None: it does not answer yet."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['prometheus']}/api/v1/{path}") as answer:
                return json.load(answer)["data"]
        except (urllib.error.URLError, ConnectionError):
            return None

    def value(self, query: str) -> float | None:
        """The value of a query with one result; None: it has none."""
        found = self.ask(f"query?query={query}")
        return float(found["result"][0]["value"][1]) if found and found["result"] else None

    def drawn(self, panel: Panel) -> int:
        """How many series the panel has."""
        expr = panel.expr.replace("$scope", "rows").replace("$__rate_interval", "10s")
        found = self.ask(f"query?query={quote(expr)}")
        return len(found["result"]) if found else 0

    def firing(self) -> set[str]:
        """The alarms that fire now."""
        found = self.ask("alerts") or {"alerts": []}
        return {one["labels"]["alertname"] for one in found["alerts"] if one["state"] == "firing"}

    def rounds(self, number: int) -> None:
        """Wait until Prometheus has scraped each member so many times more."""
        scrapes = "sum(count_over_time(up%5B10m%5D))"
        seen = self.value(scrapes) or 0
        wanted = seen + number * len(self.members)
        wait_until(lambda: (self.value(scrapes) or 0) >= wanted, what="scrapes")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with installed(), ExitStack() as stack:
        yield Site(tmp_path, stack)


def test_a_good_failover_is_silent_and_a_lost_store_is_not(site: Site) -> None:
    wait_until(lambda: site.value("sum(tenure_leader)") == 1 and site.value("sum(up)") == 2, what="the first scrapes")
    leader = next(one for one in site.members.values() if one.events("TermWon"))
    standby = next(one for one in site.members.values() if one is not leader)
    os.killpg(leader.driver() or 0, signal.SIGKILL)
    standby.wait_for("TermWon")
    site.rounds(6)
    critical = {"TenureNobodyLeads", "TenureStoreAway", "TenurePaused", "TenureDriverRestarts"}
    assert not site.firing() & critical, "nobody is woken for one failover"
    assert site.value("sum(tenure_driver_restarts_total)") == 1
    assert site.value("max(tenure_epoch)") == 2
    for panel in (*FLEET, *PIPELINE):
        wait_until(partial(site.drawn, panel), what=f"data for the panel {panel.title!r}: {panel.expr}")
    away = site.store.rename(site.store.with_suffix(".away"))
    wait_until(lambda: {"TenureNobodyLeads", "TenureStoreAway"} <= site.firing(), what="the alarms of a lost store")
    away.rename(site.store)
    wait_until(lambda: not site.firing() & {"TenureNobodyLeads", "TenureStoreAway"}, what="the end of the alarms")
    assert site.value("sum(tenure_leader)") == 1


def test_a_pipeline_without_members_is_noticed_by_its_targets(site: Site) -> None:
    wait_until(lambda: site.value("sum(up)") == 2, what="the first scrapes")
    for member in site.members.values():
        member.kill()
    wait_until(lambda: "TenureMemberDown" in site.firing(), what="the alarm")
