"""Tables at a real terminal of 80 and of 160 columns, and into a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from tenure.cli.output import ERASE
from tenure.coordination.candidates import Lag, State
from tests.cli.support import Place
from tests.cli.test_verbs import Actor
from tests.kit.members import MAIN
from tests.kit.waiting import NEVER_S, wait_until

STYLE = re.compile(r"\x1b\[[0-9;]*m")


def at_a_terminal(*arguments: str, columns: int, code: int = 0) -> list[str]:
    """The lines that a command prints at a terminal of so many columns, without their styles. `code`: its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    process = subprocess.Popen(
        [*MAIN, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env={**environment, "TERM": "xterm"}
    )
    os.close(theirs)
    said = b""
    try:
        while chunk := _read(ours):
            said += chunk
        assert process.wait(NEVER_S) == code, said
    finally:
        os.close(ours)
    return [line.rstrip() for line in STYLE.sub("", said.decode()).split("\n")[:-1]]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (80, "member role state lag behind pid"),
        (160, "member role state epoch lag behind priority host pid joined leads since"),
    ],
)
def test_the_members_at_a_terminal(place: Place, tmp_path: Path, columns: int, shown: str) -> None:
    place.make_store()
    long = "shop-6d4cf56db6-abcde"
    with (
        Actor(place, "anna", state=State.LEADING, behind={"totals": 12345}),
        Actor(place, long, state=State.WARM, lag=Lag(12, 1_234_567)),
    ):
        wait_until(lambda: len(place.look("list")) == 2 and place.look("status")["leader"] is not None)
        wait_until(lambda: all(row["behind"] or row["lag"] for row in place.look("list")))
        told = at_a_terminal("list", "--store", f"sqlite://{place.store}", "--scope", "rows", columns=columns)
    title, heads, _, *rest = told
    assert title.startswith("rows on sqlite: ")
    assert heads.split() == shown.split()
    assert max(map(len, told)) <= columns
    assert [line.split()[0] for line in rest[:2]] == sorted(["anna", long])
    assert any("12 batches, 1.2 MB" in line for line in rest[:2])
    assert any("totals 12345" in line for line in rest[:2])
    left_out = "left out at 80 columns: epoch, priority, host, joined, leads since"
    assert rest[2:] == ([left_out] if columns == 80 else [])


def test_the_members_into_a_pipe(place: Place) -> None:
    """Also where the environment asks for colours, and says that the terminal is narrow."""
    place.make_store()
    with Actor(place, "anna", state=State.READY, behind={"totals": 12345}):
        wait_until(lambda: place.look("status")["leader"] == "anna" and place.look("list")[0]["behind"])
        done = subprocess.run(
            [*MAIN, "status", "--store", f"sqlite://{place.store}", "--scope", "rows"],
            capture_output=True,
            text=True,
            timeout=NEVER_S,
            check=True,
            env={**os.environ, "COLUMNS": "40", "FORCE_COLOR": "1", "TERM": "xterm-256color"},
        )
    heads, member, empty, queries = done.stdout.split("\n")[:-1]
    assert heads.split("\t")[-3:] == ["pid", "joined", "leads_since"]
    assert member.startswith("anna\tleader\tready\t1\t\ttotals 12345\t0\t\there\t7\t2")
    assert (empty, queries) == ("", "query\tbatch\tepoch\tplanned\tbehind")
    alone, command, leads, *titles = done.stderr.splitlines()
    assert alone == "warn  no standby lives: a takeover would wait for a member to start"
    assert command == (
        f"do    start another member: tenure run PIPELINE.py --scope rows --store sqlite://{place.store} --storage URL"
    )
    assert leads.startswith("ok    anna leads, epoch 1, for ")
    assert titles == ["", "rows on sqlite: anna leads, epoch 1", "newest checkpoints"]


def test_a_run_that_is_refused_leaves_its_error_alone_at_a_terminal(place: Place) -> None:
    broken = place.folder / "broken.py"
    broken.write_text("raise ValueError('no luck')\n")
    (line,) = at_a_terminal("run", str(broken), *place.flags(), columns=200, code=7)
    waits, erased, error = line.partition(ERASE)
    assert waits.endswith(" waits for the pipeline file and the store")
    assert erased
    assert error == f"tenure: error: {broken}:1: ValueError: no luck"
