"""The page *Start*, done from its beginning to its end as a reader does it: real members, a kill, the output.

Promise: nothing but the blocks of the page is run, in the order of the page. What a terminal prints is compared with
the page, but for times. The reader's home is a temporary folder; the page's installation is what runs this test; the
feed is faster than the page's, so that nobody waits for it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import START, Block, blocks_of
from tests.kit.members import kill_host
from tests.kit.waiting import NEVER_S, wait_until

pytestmark = pytest.mark.spark

FOLDER = "tenure-start"
PAUSE, SHORTER = "time.sleep(1)", "time.sleep(0.2)"


class Terminal:
    """A shell in the reader's folder, and what was printed in it."""

    def __init__(self, name: str, reader: Reader) -> None:
        self._printed = reader.home / f"{name}.out"
        self._reader = reader
        self._read = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: str) -> None:
        """Type a command, and do not wait for its end."""
        with self._printed.open("ab") as output:
            self._process = subprocess.Popen(
                ["bash", "-c", f"{self._reader.entering}\nexec {command}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._reader.environment,
            )

    def wait_for(self, expected: str) -> None:
        """Wait until these lines are printed, in this order, behind those that were waited for before."""
        pattern = re.compile(r"(?:.*\n)*?".join(as_pattern(line) for line in expected.splitlines()), re.MULTILINE)

        def found() -> re.Match[str] | None:
            return pattern.search(self._printed.read_text(), self._read)

        try:
            match = wait_until(found, what=repr(expected))
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{self._printed.read_text()}") from late
        assert match is not None
        self._read = match.end()

    def interrupt(self) -> int:
        """Press Ctrl-C, and wait for the end."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(NEVER_S)

    def close(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                kill_host(self._process.pid)
            self._process.wait()


class Reader:
    """Who follows the page."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.entering = ""
        """What is typed first in each terminal, once the page has said so."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_S")}
        self.environment = {**kept, "HOME": str(home)}
        activate = home / "tenure-venv" / "bin" / "activate"
        activate.parent.mkdir(parents=True)
        activate.write_text(f"export PATH='{Path(sys.executable).parent}':$PATH\n")
        self.terminals = {name: Terminal(name, self) for name in ("1", "2")}
        self.feed: subprocess.Popen[bytes] | None = None
        self.printed = ""
        """By the newest command that was waited for."""

    def run(self, text: str) -> str:
        """Type commands into the third terminal, and wait for their end."""
        before = self.entering or f"cd; . tenure-venv/bin/activate; [ ! -d {FOLDER} ] || cd {FOLDER}"
        done = subprocess.run(
            ["bash", "-e", "-c", f"{before}\n{text}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=NEVER_S,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def do(self, block: Block) -> None:
        """Do what a block of the page says."""
        kind, _, number = block.role.partition("-")
        if block.language == "python":
            (self.home / FOLDER / block.role).write_text(block.text.replace(PAUSE, SHORTER))
        elif kind == "terminal":
            self.terminals[number].start(block.text)
        elif kind == "output" and number in self.terminals:
            self.terminals[number].wait_for(block.text)
        elif block.role == "output-result":
            wait_until(lambda: self.run("python look.py") == block.text, what=f"the feed's end, and {block.text!r}")
        elif kind == "output":
            assert re.search("".join(as_pattern(line) for line in block.text.splitlines()), self.printed)
        elif kind == "feed":
            self.feed = subprocess.Popen(
                ["bash", "-c", f"{self.entering}\nexec {block.text.strip().removesuffix('&')}"], env=self.environment
            )
        elif kind == "kill":
            self.run(block.text.replace("PID", str(self.leader())))
        elif kind == "":
            self.entering = block.text
        elif kind != "install":
            self.printed = self.run(block.text)

    def leader(self) -> int:
        """The process id that `tenure list` shows for the leader."""
        members = json.loads(self.run("tenure list --output json"))
        found = [member["pid"] for member in members if member["role"] == "leader"]
        assert len(found) == 1, members
        return int(found[0])

    def close(self) -> None:
        for terminal in self.terminals.values():
            terminal.close()
        if self.feed is not None:
            self.feed.kill()
            self.feed.wait()


def as_pattern(line: str) -> str:
    """A line as it may be printed another time."""
    at_any_time = re.sub(r"\d\d:\d\d:\d\d", r"\\d\\d:\\d\\d:\\d\\d", re.escape(line))
    return "^" + re.sub(r"\d+\\\.\d\d\\ s$", r"\\d+\\.\\d\\d\\ s", at_any_time) + r"\n"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    follower = Reader(tmp_path)
    try:
        yield follower
    finally:
        follower.close()


@pytest.mark.timeout(10 * NEVER_S)  # it waits for ten things, one after the other
def test_the_page_does_what_it_says(reader: Reader) -> None:
    blocks = blocks_of(START)
    roles = [block.role for block in blocks]
    assert {"terminal-1", "terminal-2", "kill", "output-result"} <= set(roles)
    for block in blocks:
        reader.do(block)
    assert {terminal.interrupt() for terminal in reader.terminals.values()} == {130}
