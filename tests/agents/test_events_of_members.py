"""`tenure events`: the events of real agents whose drivers have no Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tenure.backends.sqlite import SqliteStore
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tests.agents.test_members_without_store import Site
from tests.kit.process import GroupProcess
from tests.kit.waiting import wait_until
from tests.regressions.sparkless import COMMAND


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path, stack)


def words(site: Site, *more: str) -> list[str]:
    return [*COMMAND, "events", "--store", f"sqlite://{site.store}", "--scope", "rows", *more]


def events(site: Site, *more: str) -> subprocess.CompletedProcess[str]:
    told = {**os.environ, "XDG_CACHE_HOME": str(site.folder / "cache")}
    return subprocess.run(words(site, *more), capture_output=True, text=True, check=False, env=told)


def data(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_events_of_all_members_by_time(site: Site) -> None:
    wait_until(lambda: "TermWon" in events(site, "-o", "json").stdout, what="a term")
    found = data(events(site, "-o", "json").stdout)
    assert {one["source"] for one in found} == {"anna", "ben"}
    assert [one["at"] for one in found] == sorted(one["at"] for one in found)
    heads, *rows = [line.split("\t") for line in events(site, "--member", "ben").stdout.splitlines()]
    assert heads == ["at", "source", "event", "line"]
    assert {row[1] for row in rows} == {"ben"}
    assert ["MemberReady", "member ben is ready, standing by"] in [row[2:] for row in rows]
    assert len(data(events(site, "-n", "1", "-o", "json").stdout)) == 1
    wrong = events(site, "--member", "zoe")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "no live member of scope 'rows' is named 'zoe'; live: ['anna', 'ben']" in wrong.stderr


def test_a_member_that_cannot_answer_is_named_with_what_to_do(site: Site) -> None:
    clock = SystemClock()
    site.members["ben"].kill()
    with closing(SqliteStore(site.store)) as store, SessionKeeper(store, ttl=timedelta(seconds=60), clock=clock) as one:
        Election(store, Scope("rows"), member="carl", clock=clock).join(one, host="here", pid=7)
        told = events(site)
        assert "member carl serves no events; start it with --http HOST:PORT" in told.stderr
        assert told.returncode == 0
        assert "\tanna\t" in told.stdout
        known = f"127.0.0.1:{site.ports['ben']}"
        away = site.store.rename(site.store.with_suffix(".away"))
        told = events(site)
        away.rename(site.store)
    assert told.returncode == 4
    assert "members are asked at the addresses that are known" in told.stderr
    assert "\tanna\t" in told.stdout
    if known in told.stderr:  # the store had not noticed the death at the first look
        assert f"member ben does not answer at {known}: " in told.stderr


def test_a_member_that_is_started_again_is_followed(site: Site) -> None:
    out = site.folder / "followed"
    follower = GroupProcess(words(site, "--follow", "-o", "json"), log=out)
    follower.start()
    try:
        wait_until(lambda: "MemberReady" in of_ben(out), what="the first life of ben")
        site.members["ben"].kill()
        wait_until(lambda: "member ben is gone" in out.read_text(), what="the warning")
        out.write_text("")
        site.members["ben"].start()
        wait_until(lambda: "MemberReady" in of_ben(out), what="the second life of ben")
        follower.signal(signal.SIGINT)
        wait_until(lambda: not follower.running)
        assert follower.exit_code == 130
    finally:
        follower.kill()


def of_ben(out: Path) -> str:
    return "\n".join(line for line in out.read_text().splitlines() if '"source": "ben"' in line)
