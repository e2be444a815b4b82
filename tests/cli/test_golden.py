"""A session of a new user at a real terminal of 80 and of 160 columns: every verb, and every flag that is wrong.

The golden output is in `tests/cli/golden`. Times and the folder are written as the same words each time. After a change
that is meant: `python -m tests.cli.test_golden`, and read the difference.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest

from tenure.backends.sqlite import SqliteStore
from tenure.checkpoints.checkpoint import Checkpoint
from tenure.cli.options import operator
from tenure.clock import SystemClock, timestamp
from tenure.coordination.candidates import Identity, Lag, State
from tenure.coordination.held_term import held
from tenure.coordination.records import Scope
from tenure.handles.areas import area_of
from tenure.results.result import Ending, Result, Stage
from tenure.scope_context import ScopeContext
from tests.cli.support import Place
from tests.cli.terminal import Terminal
from tests.cli.test_verbs import Actor
from tests.kit.waiting import wait_until
from tests.unit.rundirs.made_by_hand import a_run_directory

GOLDEN: Final = Path(__file__).with_name("golden")
WIDTHS: Final = (80, 160)

BEFORE: Final = """
tenure
tenure --version
tenure version
tenure -h
tenure run -h
tenure doctor -h
tenure status -h
tenure history -h
tenure list -h
tenure scopes -h
tenure ui -h
tenure switchover -h
tenure failover -h
tenure pause -h
tenure resume -h
tenure restart -h
tenure reinit -h
tenure remove -h
tenure events -h
tenure config -h
tenure config show -h
tenure checkpoints -h
tenure checkpoints list -h
tenure checkpoints show -h
tenure checkpoints diff -h
tenure checkpoints verify -h
tenure checkpoints pin -h
tenure checkpoints unpin -h
tenure handles -h
tenure handles list -h
tenure handles show -h
tenure handles locks -h
tenure handles release -h
tenure result -h
tenure result show -h
tenure result forget -h
tenure cleanup -h
tenure cleanup status -h
tenure sweep -h
tenure sweep plan -h
tenure sweep apply -h
tenure sweep report -h
tenure adopt -h
tenure export -h
tenure bogus
tenure list
tenure run
tenure run flights.py
tenure scopes
tenure list --store /srv/ha.db --scope flights
tenure list --store redis://host --scope flights
tenure list --store sqlite:///no/such/ha.db --scope flights
tenure list --store sqlite:///srv/ha.db --scope 'a b'
"""
"""Typed in an empty folder."""

SETTINGS: Final = 'store = "sqlite://{folder}/store.db"\nstorage = "file://{folder}/storage"\nscope = "rows"\n'

AFTER: Final = """
tenure scopes
tenure scopes --bogus
tenure scopes -o xml
tenure list
tenure list --bogus
tenure list -o xml
tenure list --scope row
tenure status
tenure status --bogus
tenure status -o xml
tenure history
tenure history --bogus
tenure history -o xml
tenure events
tenure events --member bogus
tenure remove old
tenure remove rows
tenure remove bogus
tenure checkpoints
tenure checkpoints bogus
tenure checkpoints list
tenure checkpoints list copy
tenure checkpoints list bogus
tenure checkpoints list --bogus
tenure checkpoints show
tenure checkpoints show copy
tenure checkpoints show copy 1 -o json
tenure checkpoints show copy 99
tenure checkpoints show copy x
tenure checkpoints show bogus
tenure checkpoints show copy --bogus
tenure handles
tenure handles bogus
tenure handles list
tenure handles list --bogus
tenure handles list bogus
tenure handles show daily 2026-11
tenure handles show daily 2026-11 -o json
tenure handles show daily x
tenure handles show daily 'a b'
tenure handles locks
tenure handles locks --bogus
tenure handles release daily
tenure handles release daily 2026-11
tenure handles release daily x
tenure handles release daily 2026-11 --bogus
tenure pause
tenure pause
tenure list
tenure pause --bogus
tenure pause --scope row
tenure resume
tenure resume
tenure resume --bogus
tenure resume --scope row
tenure restart
tenure restart bogus
tenure restart ben
tenure restart --bogus
tenure restart ben --scope row
tenure reinit ben
tenure switchover --candidate bogus
tenure switchover --timeout never
tenure switchover --bogus
tenure switchover --scope row
tenure failover --candidate bogus --force
tenure switchover --candidate ben
tenure failover --timeout never
tenure failover --bogus
tenure failover --scope row --force
tenure history
tenure result
tenure result bogus
tenure result show
tenure result show --bogus
tenure result show --scope old
tenure result forget
tenure result forget --bogus
tenure result forget --scope old
tenure cleanup
tenure cleanup bogus
tenure cleanup status
tenure cleanup status --bogus
tenure cleanup status --scope row
tenure sweep
tenure sweep bogus
tenure sweep plan
tenure sweep plan plan --bogus
tenure sweep plan plan
tenure sweep plan plan
tenure sweep report
tenure sweep report plan
tenure sweep report nothing
tenure sweep report plan --bogus
tenure sweep apply
tenure sweep apply plan --rate 0
tenure sweep apply plan --rate x
tenure sweep apply plan --scope other
tenure sweep apply plan --bogus
tenure sweep apply plan
tenure sweep apply plan
tenure adopt
tenure adopt plain
tenure adopt plain --query copy
tenure adopt none --query copy
tenure adopt plain --query 'a b'
tenure adopt plain --query copy --lost-store
tenure adopt plain --query copy --bogus
tenure adopt plain --query copy -o xml
tenure adopt --lost-store
tenure adopt plain --query copy --scope new --storage file:///srv/new -o json
tenure export
tenure export out
tenure export out --query copy
tenure export out --query copy --timeout 0s
tenure export out --query copy --timeout never
tenure export out --query bogus
tenure export out --query copy --bogus
tenure run missing.py
tenure run broken.py
tenure run rows.py --bogus
tenure run rows.py --ttl never
tenure run rows.py --ttl 0s
tenure run rows.py --param x
tenure run rows.py --conf x
tenure run rows.py --connector bogus
tenure run rows.py --on-store-loss bogus
tenure run rows.py --standby bogus
tenure run rows.py --http bogus
tenure run rows.py --priority x
tenure run rows.py --member 'a b'
"""
"""Typed where a pipeline is, in a folder with settings."""


_VARIABLES: Final = ("PATH", "HOME", "JAVA_HOME")
"""Others change what a terminal shows."""


def _versions() -> str:
    """The packages that make help screens and tables: another release of them may show the same otherwise."""
    return ", ".join(f"{name} {version(name)}" for name in ("typer", "rich"))


def session(folder: Path, *, columns: int) -> str:
    """What a user types, and what the terminal shows."""
    bare = {name: value for name, value in os.environ.items() if name in _VARIABLES}
    shown = [_versions(), ""]
    with Terminal(folder, columns=columns, environment={**bare, "PYTHONUTF8": "1"}) as terminal:

        def type_all(commands: str) -> None:
            for command in commands.strip().splitlines():
                said, code = terminal.type(shlex.split(command)[1:])
                shown.append(f"$ {command}")
                shown.extend([said] if said else [])
                shown.append(f"[exit code {code}]\n" if code else "")

        type_all(BEFORE)
        with _pipeline(folder):
            (folder / "tenure.toml").write_text(SETTINGS.format(folder=folder))
            (folder / "broken.py").write_text("raise ValueError('no luck')\n")
            (folder / "rows.py").write_text("import tenure\n")
            shown.append(f"$ cat tenure.toml\n{SETTINGS.format(folder=folder)}")
            type_all(AFTER)
    return _same_each_time("\n".join(shown), folder)


def _same_each_time(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "/srv/shop")
    text = text.replace(operator(), "me@here")
    text = re.sub(r", for \d+ s\b", ", for 7 s", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}", "2026-01-02T03:04:05.678", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "2026-01-02 03:04:05Z", text)
    return re.sub(r"\d\d:\d\d:\d\d ", "03:04:05 ", text)


@contextlib.contextmanager
def _pipeline(folder: Path) -> Iterator[None]:
    """A scope `rows` with checkpoints, which anna leads, and ben stands by; and a scope `old` that has ended."""
    clock, ttl = SystemClock(), timedelta(seconds=20)
    place = Place(folder)
    with contextlib.closing(SqliteStore(place.store)) as store:
        for name in ("old", "rows"):
            scope = Scope(name)
            context = ScopeContext(store, scope, f"file://{place.storage}/{name}", clock)
            with held(store, scope, Identity("zoe", "here", 7), ttl=ttl, timeout=None, clock=clock) as term:
                context.owner().own(term)
                if name == "old":
                    context.results().write_dirty(
                        term, Result(Ending.FINISHED, Stage.DIRTY, 1, "zoe", timestamp(clock))
                    )
                    context.results().mark_clean(term)
                    continue
                for batch in range(3):
                    context.checkpoints("copy").plan(term, _checkpoint(batch))
                context.handles(area_of("daily")).add(term, "2026-11", b"a report")
    a_run_directory(f"{folder}/plain")
    for directory in ("e00000001-zoe-0123456789aa", "e00000001-zoe-0123456789ab"):  # named by the store, and an orphan
        path = place.storage / "rows" / "runs" / "copy" / directory / "commits" / "2"
        path.parent.mkdir(parents=True)
        path.write_text("v1\n{}")
    with Actor(place, "anna"), contextlib.ExitStack() as rest:
        wait_until(lambda: place.look("status")["leader"] == "anna")
        rest.enter_context(Actor(place, "ben", state=State.WARM, lag=Lag(12, 1_234_567)))
        wait_until(lambda: any(row["lag"] for row in place.look("list")))
        yield


def _checkpoint(batch: int) -> Checkpoint:
    return Checkpoint("copy", "the-query", batch, "v1\n{}\n{}", "runs/copy/e00000001-zoe-0123456789aa", 1, "2026-01-02")


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_session_at_a_terminal(columns: int) -> None:
    golden = (GOLDEN / f"{columns}.txt").read_text()
    made_with = golden.partition("\n")[0]
    if made_with != _versions():
        pytest.skip(f"the golden output is of {made_with}; write it anew with {_versions()}")
    with tempfile.TemporaryDirectory(prefix="tenure-golden-") as folder:
        assert session(Path(folder), columns=columns) == golden


def main(arguments: Sequence[str] = ()) -> None:
    """Write the golden output."""
    GOLDEN.mkdir(exist_ok=True)
    for columns in WIDTHS:
        with tempfile.TemporaryDirectory(prefix="tenure-golden-") as folder:
            (GOLDEN / f"{columns}.txt").write_text(session(Path(folder), columns=columns))


if __name__ == "__main__":
    main()
