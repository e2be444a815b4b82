"""One record of a member, or of a request, that does not decode: every standby, `list`, `status` and `switchover` ended
with exit code 5, and the leader could never be succeeded. It is one member's: it is skipped, and named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.support import Place, Told, tenure
from tests.kit.members import MemberProcess
from tests.kit.waiting import NEVER_S, wait_until
from tests.regressions import sparkless

SOON = timedelta(seconds=60)


class Pair:
    """`anna` leads, `ben` stands by: agents as users start them, with drivers that run no Spark."""

    def __init__(self, folder: Path, around: ExitStack) -> None:
        self.place = Place(folder)
        self.anna = around.enter_context(self._member("anna"))
        wait_until(lambda: self.leader() == "anna", SOON, what="the first leader")
        self.ben = around.enter_context(self._member("ben"))
        wait_until(lambda: self.states().get("ben") == "ready", SOON, what="a standby")

    def _member(self, name: str) -> MemberProcess:
        flags = ["--store", f"sqlite://{self.place.store}", "--storage", f"file://{self.place.storage}"]
        arguments = ["run", "rows.py", *flags, "--scope", "rows", "--standby", "cold"]
        return MemberProcess(name, folder=self.place.folder, arguments=arguments, command=sparkless.COMMAND)

    def leader(self) -> str | None:
        told = self.verb("status", "--output", "json")
        return None if told.code else told.json["leader"]

    def states(self) -> dict[str, str]:
        return {row["member"]: row["state"] for row in self.verb("list", "--output", "json").json}

    def verb(self, *words: str) -> Told:
        return tenure(*words, "--store", f"sqlite://{self.place.store}", "--scope", "rows")

    def damage(self, key: str, value: object) -> None:
        """Write a record that goes with ben's session, if it is a member's, as a damaged file or a newer version
        would leave it."""
        session = "(SELECT session FROM records WHERE key = 'members/ben')" if key.startswith("members/") else "NULL"
        self.place.sql(f"INSERT OR REPLACE INTO records VALUES ('rows', ?, ?, 1, {session})", (key, value))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as around:
        yield Pair(tmp_path, around)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("members/zoe", b"\x00\xff"),
        ("members/zoe", '{"v":2,"host":"here"}'),
        ("members/ben", b'{"v":1,"host":"here","pid":7,"since":"now","priority":"high"}'),
        ("switchover", b"{"),
        ("restarts/ben", b"[]"),
        ("terms/000000000001", b"[]"),
    ],
)
def test_a_record_that_does_not_decode_is_named_and_the_leader_is_succeeded(
    pair: Pair, key: str, value: object
) -> None:
    pair.damage(key, value)
    for command in ("list", "status"):
        told = pair.verb(command)
        assert told.code == 0, told.err
        (line,) = [line for line in told.err.splitlines() if line.startswith("tenure: ")]
        assert line.startswith(f"tenure: warning: record '{key}' ")
        assert line.endswith("; it is skipped")
    status = pair.verb("status", "--output", "json").json
    assert [one["key"] for one in status["unread"]] == [key]
    rows = {row["member"]: row for row in pair.verb("list", "--output", "json").json}
    assert rows["anna"]["trouble"] is None
    if key.startswith("members/"):
        told_of = rows[key.removeprefix("members/")]
        assert (told_of["role"], told_of["state"]) == ("standby", "unreadable")
        assert f"record '{key}' " in told_of["trouble"]
    for member in (pair.anna, pair.ben):
        assert member.wait_for("RecordSkipped", timeout_s=NEVER_S)["record"] == key
    pair.anna.kill()
    won = pair.ben.wait_for("TermWon", timeout_s=NEVER_S)
    assert won["epoch"] == 2
    wait_until(lambda: "batch 2 committed" in pair.ben.output(), SOON, what="its first batch")
    assert len(pair.ben.events("RecordSkipped")) == 1, "said once"
    assert len(pair.ben.events("MemberReady")) == 1, "it did not restart its driver"


@pytest.mark.parametrize("key", ["members/zoe", "switchover"])
def test_a_switchover_beside_a_record_that_does_not_decode(pair: Pair, key: str) -> None:
    pair.damage(key, b"{")
    told = pair.verb("switchover", "--candidate", "ben")
    assert (told.code, told.out) == (0, "ben leads rows, epoch 2; before: anna\n"), told.err
    status = pair.verb("status", "--output", "json").json
    assert [one["key"] for one in status["unread"]] == ([key] if key == "members/zoe" else []), "a request replaced it"


def test_a_member_whose_record_does_not_decode_can_be_restarted(pair: Pair) -> None:
    """It gets a session, and a record, of its own again."""
    pair.damage("members/ben", b"{")
    pair.damage("restarts/ben", b"{")
    told = pair.verb("restart", "ben")
    assert told.code == 0, told.err
    wait_until(lambda: len(pair.ben.events("MemberReady")) == 2, SOON, what="the restart")
    wait_until(lambda: pair.states().get("ben") == "ready", SOON, what="its new record")
    assert pair.verb("status", "--output", "json").json["unread"] == []


def test_a_leader_whose_record_does_not_decode_leads_on_and_hands_over(pair: Pair) -> None:
    pair.place.sql("UPDATE records SET value = ? WHERE key = 'members/anna'", (b"{",))
    rows = {row["member"]: row for row in pair.verb("list", "--output", "json").json}
    assert (rows["anna"]["role"], rows["anna"]["epoch"], rows["anna"]["state"]) == ("leader", 1, "unreadable")
    assert pair.verb("switchover").code == 0
    assert pair.leader() == "ben"
    wait_until(lambda: pair.states().get("anna") in ("ready", "warm"), SOON, what="its new record")
