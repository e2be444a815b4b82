"""Members whose drivers run no Spark, and all that a person sees of them: `status`, history, probes, figures, events.

Promise: each text is that of the product, with its times, durations, batches and process ids replaced by words, so that
a test compares it word by word.
"""

from __future__ import annotations

import contextlib
import io
import json
import operator
import re
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tenure.assembly import Run, assemble
from tenure.cli.main import main
from tenure.errors import TenureError
from tenure.settings import Settings
from tests.agents.commanded import COMMAND, load
from tests.kit.members import MemberProcess, read_events
from tests.kit.servers.process import free_ports
from tests.kit.thread_child import ThreadChild
from tests.kit.waiting import wait_until

SCOPE: Final = "rows"
RULES: Final = Path(__file__).parents[2] / "deploy" / "monitoring" / "rules.yml"
PATHS: Final = ("/leader", "/standby", "/health", "/readyz")

_WORDS: Final = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00"), "TIME"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b[\w.-]+:\d{3,7}(?=, (?:exit|stopped|not seen|finished))"), "HOST:PID"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:s|min)\b"), "SECONDS"),
    (re.compile(r"\bbatch \d+\b"), "batch N"),
    (re.compile(r"\bepoch \d+\b"), "epoch N"),
    (re.compile(r"\bterm \d+\b"), "term N"),
    (re.compile(r"/\S*/ha\.db"), "STORE"),
    (re.compile(r"--store \S+ --storage \S+"), "--store URL --storage URL"),
    (re.compile(r"\b\d+ times since\b"), "TIMES since"),
)

Sample = tuple[str, Mapping[str, str], float]
"""The name of a figure, its labels, its value."""


def in_words(text: str) -> str:
    """The text without what differs from run to run."""
    for pattern, word in _WORDS:
        text = pattern.sub(word, text)
    return text


def tenure(*words: str) -> tuple[int, str, str]:
    """Run a command in this process: exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with ExitStack() as around:
        around.enter_context(contextlib.redirect_stdout(out))
        around.enter_context(contextlib.redirect_stderr(err))
        around.enter_context(patch.object(sys, "argv", ["tenure", *words]))
        ended = around.enter_context(_Ended())
        main()
    return ended.code, out.getvalue(), err.getvalue()


class _Ended:
    """Takes the SystemExit of the block."""

    code = 0

    def __enter__(self) -> _Ended:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        self.code = int(error.code or 0) if isinstance(error, SystemExit) else -1
        return isinstance(error, SystemExit)


class ThreadMember:
    """A member in threads of this process: the agent is the product's, and so is all but the driver's process."""

    def __init__(self, name: str, settings: Settings, *, log: Path) -> None:
        self.name = name
        self.event_log = log
        self._settings = settings
        self._stop = threading.Event()
        self._drivers: list[ThreadChild] = []
        self._thread = threading.Thread(target=self._run, name=f"member-{name}", daemon=True)

    def __enter__(self) -> ThreadMember:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.terminate()
        self._thread.join()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def terminate(self) -> None:
        """As SIGTERM."""
        self._stop.set()

    def kill_driver(self) -> None:
        """As SIGKILL of the driver's group."""
        self._drivers[-1].kill()

    def _start_driver(self, member: str) -> ThreadChild:
        self._drivers.append(ThreadChild(load))
        return self._drivers[-1]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events so far of one kind."""
        return [event for event in read_events(self.event_log) if event["event"] == kind]

    def wait_for(
        self, kind: str, *, such_that: Callable[[dict[str, Any]], bool] = lambda event: True
    ) -> dict[str, Any]:
        """Wait for the first such event."""

        def matching() -> list[dict[str, Any]]:
            found = [event for event in self.events(kind) if such_that(event)]
            assert found or self.running, f"member {self.name} has ended: {self.events('RunEnded')}"
            return found

        return wait_until(matching, what=kind)[0]

    def _run(self) -> None:
        assembled = assemble(self._settings, Run("rows.py"), start_driver=self._start_driver)
        try:
            assembled.member.run(stop=self._stop)
        except TenureError as error:
            assembled.ended(error)
        finally:
            assembled.close()


class Stage:
    """One scope on SQLite, its members, and the looks of a person."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self.store = folder / "ha.db"
        self.url = f"sqlite://{self.store}"
        (folder / "storage").mkdir()
        (folder / "orders").mkdir()
        self.members: dict[str, MemberProcess | ThreadMember] = {}
        self._ports: dict[str, int] = {}

    # --- what happens -------------------------------------------------------------------------------------------

    def start(self, name: str, *, process: bool = False, **more: Any) -> MemberProcess | ThreadMember:
        """Start a member, as threads or as processes, and wait until it stands by. `more`: settings."""
        self._ports[name] = free_ports(1)[0]
        given = {
            "store": self.url,
            "storage": f"file://{self._folder}/storage",
            "scope": SCOPE,
            "ttl": "3s",
            "http": f"127.0.0.1:{self._ports[name]}",
            "driver_silence": "7s",
            "stop_patience": "2s",
            **more,
        }
        member: MemberProcess | ThreadMember
        if process:
            environment = {f"TENURE_{key.upper()}": str(value) for key, value in given.items()}
            arguments = ["run", "rows.py", "--param", f"orders={self._folder}/orders"]
            member = MemberProcess(
                name, folder=self._folder, arguments=arguments, command=COMMAND, environment=environment
            )
        else:
            log = self._folder / f"{name}.events.jsonl"
            settings = Settings(**given, member=name, params={"orders": f"{self._folder}/orders"}, event_log=str(log))
            member = ThreadMember(name, settings, log=log)
        self.members[name] = member
        self._stack.enter_context(member)
        member.wait_for("MemberReady")
        return member

    def led(self, *, process: bool = False, **more: Any) -> None:
        """Let anna lead, with a few batches done, and ben stand by, warm. `process`, `more`: see `start`."""
        anna = self.start("anna", process=process, **more)
        anna.wait_for("BatchCommitted", such_that=lambda event: bool(event["batch"] > 1))
        self.start("ben", process=process, **more)
        wait_until(lambda: self.probes("ben")["/readyz"] == 200, what="a warm standby")
        wait_until(lambda: "ok" in self.verdict()[0], what="a status without trouble")

    def order(self, *names: str, **orders: object) -> None:
        """Give the drivers of these members their orders; no orders: all is well."""
        for name in names:
            file = self._folder / "orders" / f"{name}.new"
            file.write_text(json.dumps(orders))
            file.replace(file.with_suffix(""))

    def verb(self, *words: str) -> tuple[int, str, str]:
        """One command on this scope."""
        return tenure(*words, "--store", self.url, "--scope", SCOPE)

    # --- what a person sees ------------------------------------------------------------------------------------

    def status(self) -> list[str]:
        """The verdict of `tenure status`, and the lines below its tables."""
        _, _, said = self.verb("status")
        lines = [in_words(line) for line in said.splitlines()]
        return [line for line in lines if line and line not in ("newest checkpoints",)]

    def verdict(self) -> list[str]:
        """The verdict alone."""
        return [line for line in self.status() if line.split()[0] in ("bad", "warn", "ok", "why", "do")]

    def members_table(self) -> dict[str, dict[str, str]]:
        """The rows of `tenure list`, as into a pipe."""
        heads, *rows = self.verb("list")[1].splitlines()
        return {row.split("\t")[0]: dict(zip(heads.split("\t"), row.split("\t"), strict=True)) for row in rows}

    def history(self) -> list[str]:
        """The column `why` of `tenure history`, the last row last, without the time between two terms: whether it is
        long enough for a row depends on the load of this machine."""
        rows = [in_words(row.split("\t")[-1]) for row in self.verb("history")[1].splitlines()[1:]]
        return [row for row in rows if not row.startswith("nobody led for ")]

    def check(self) -> int:
        """The exit code of `tenure status --check`."""
        return self.verb("status", "--check")[0]

    def probes(self, name: str) -> dict[str, int]:
        """Path -> code; 0: no answer."""
        return {path: self._get(name, path)[0] for path in PATHS}

    def condition(self, name: str) -> dict[str, Any]:
        """`/status` of a member."""
        found: dict[str, Any] = json.loads(self._get(name, "/status")[1])
        return found

    def events(self, name: str, kind: str) -> list[dict[str, Any]]:
        """The events of a kind, without time and numbers."""
        return self.members[name].events(kind)

    def samples(self) -> list[Sample]:
        """All figures of all members that answer, and `up` of each."""
        found: list[Sample] = []
        for name in self._ports:
            code, page = self._get(name, "/metrics")
            found.append(("up", {"member": name, "job": "tenure"}, float(code == 200)))
            for family in text_string_to_metric_families(page if code == 200 else ""):
                found += [(one.name, one.labels, one.value) for one in family.samples]
        return found

    def figure(self, name: str, **labels: str) -> float | None:
        """The value of one figure; None: nobody has it."""
        values = [
            value
            for figure, found, value in self.samples()
            if figure == name and all(found.get(label) == one for label, one in labels.items())
        ]
        return values[0] if values else None

    def alarms(self, before: Sequence[Sample] = ()) -> set[str]:
        """The alarms of deploy/monitoring that fire if this lasts. `before`: the figures before the fault, for
        `increase`."""
        return firing(self.samples(), before)

    def _get(self, name: str, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ports[name]}{path}", timeout=2) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()
        except OSError:
            return 0, ""


# --- the alarms ---------------------------------------------------------------------------------------------------

_RULE: Final = re.compile(
    r"(?:(?P<by>max|min|sum) by \(scope\) \()?(?P<grows>increase\()?(?P<name>\w+)(?:\{[^}]*\})?(?:\[\w+\]\))?\)?"
    r" (?P<sign>==|<|>=|>) (?P<limit>\d+)"
)
_SIGNS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    ">=": operator.ge,
}
_BY: Final[Mapping[str, Callable[[list[float]], float]]] = {"max": max, "min": min, "sum": sum}


def firing(now: Sequence[Sample], before: Sequence[Sample]) -> set[str]:
    """The names of the rules whose expression is true of these figures. Their `for` is left out."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"] for group in groups for rule in group["rules"] if _is_true(rule["expr"], now, before)}


def _is_true(expression: str, now: Sequence[Sample], before: Sequence[Sample]) -> bool:
    rule = _RULE.fullmatch(expression)
    assert rule is not None, f"this test cannot evaluate {expression!r}"
    earlier = {(name, tuple(sorted(labels.items()))): value for name, labels, value in before}
    values = [
        value - (earlier.get((name, tuple(sorted(labels.items()))), 0.0) if rule["grows"] else 0.0)
        for name, labels, value in now
        if name == rule["name"]
    ]
    if rule["by"] and values:
        values = [_BY[rule["by"]](values)]
    return any(_SIGNS[rule["sign"]](value, float(rule["limit"])) for value in values)
