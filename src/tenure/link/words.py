"""The words between an agent and its driver, and the socket that carries them.

Promise: one JSON object a line, in the order of sending. A word to a side that is gone is dropped; `receive` reports
that the side is gone. Not promised: that the other side reads a word.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Word:
    """Root of all words."""


# --- from the agent to its driver ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begin(Word):
    """Load this pipeline. `settings`: see `Settings.to_data`."""

    settings: dict[str, Any] = field(repr=False)
    pipeline_file: str
    until_idle: bool
    asks_targets: bool = False
    """Ask the target of each query before the driver is prepared (`TargetAsked`)."""


@dataclass(frozen=True, slots=True)
class Prepare(Word):
    """Become able to lead the scope."""

    scope: str


@dataclass(frozen=True, slots=True)
class Records(Word):
    """A part of a change of the scope's records (`link/records.py`). `answers`: the number of the newest question that
    the records answer, with the last part of a change; None: more parts follow."""

    part: str
    answers: int | None


@dataclass(frozen=True, slots=True)
class StandBy(Word):
    """The member has a new session. Use nothing that was prepared for a takeover in an earlier session."""


@dataclass(frozen=True, slots=True)
class Elected(Word):
    """The member was elected. A `Lead` follows, unless the member resigns at once."""


@dataclass(frozen=True, slots=True)
class Lead(Word):
    """Lead under this term (`Term.to_json`) until `until_s` on the machine's monotonic clock. `cleans`: the pipeline
    has ended; run no query, and remove its remains."""

    term: str
    until_s: float
    cleans: bool = False


@dataclass(frozen=True, slots=True)
class Renewed(Word):
    """The term was renewed; lead until `until_s`."""

    until_s: float


@dataclass(frozen=True, slots=True)
class Lost(Word):
    """The term is over."""

    why: str


@dataclass(frozen=True, slots=True)
class Stop(Word):
    """Stop the queries."""


@dataclass(frozen=True, slots=True)
class Finish(Word):
    """Let each query finish its batch, then stop it."""


@dataclass(frozen=True, slots=True)
class Close(Word):
    """End the process."""


# --- from the driver to its agent ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loaded(Word):
    """The pipeline is loaded. `name`: of the pipeline. `file`: the fingerprint of its file. `spark`: the version of
    Spark; empty: the driver has none."""

    name: str
    file: str = ""
    spark: str = ""


@dataclass(frozen=True, slots=True)
class AskRecords(Word):
    """Send the records as they are from now on. `number`: of the question, one more each time."""

    number: int


@dataclass(frozen=True, slots=True)
class GotRecords(Word):
    """The last part of records has arrived, and there is room for the next."""


@dataclass(frozen=True, slots=True)
class Prepared(Word):
    """The driver can lead. `limits`: query -> its stall timeout in seconds, where the query declares one."""

    limits: dict[str, float]


@dataclass(frozen=True, slots=True)
class Pulse(Word):
    """The JVM has just answered. `marks`: query with a stall timeout -> a text that changes with its progress; None:
    the query waits for data. `lag`: the fields of the mirrors' `Lag`; None: the driver mirrors nothing. `trouble`: why
    the rehearsals fail; None: they succeed, or there are none. `behind`: query -> the offsets of Kafka that it is
    behind, where that is known."""

    marks: dict[str, str | None]
    lag: dict[str, int] | None = None
    trouble: str | None = None
    behind: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DriverEvent(Word):
    """An event of the driver (`event_to_data`)."""

    event: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Over(Word):
    """The leadership ended, and the driver is ready for the next. `ended`: a value of `Ended`. `error`: its cause
    (`error_to_data`)."""

    ended: str
    error: dict[str, str | int | None] | None = None


@dataclass(frozen=True, slots=True)
class Failed(Word):
    """The driver ends with this error (`error_to_data`)."""

    error: dict[str, str | int | None]


_OF_AGENT = (Begin, Prepare, Records, StandBy, Elected, Lead, Renewed, Lost, Stop, Finish, Close)
_OF_DRIVER = (Loaded, AskRecords, GotRecords, Prepared, Pulse, DriverEvent, Over, Failed)
_WORDS: Mapping[str, type[Word]] = {kind.__name__: kind for kind in (*_OF_AGENT, *_OF_DRIVER)}


class Link:
    """One end of the socket. Any thread may call `send`; one thread calls `receive`."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._unread = b""
        self._lock = threading.Lock()  # keeps lines whole

    def send(self, word: Word) -> None:
        """Send a word, or drop it when the other side is gone. Blocks while the other side does not read."""
        line = json.dumps({"word": type(word).__name__, **asdict(word)}) + "\n"
        try:
            with self._lock:
                self._connection.sendall(line.encode())
        except OSError:
            return  # `receive` reports that the other side is gone

    def receive(self, *, timeout_s: float | None = None, until: int | None = None) -> Word | None:
        """The next word; None: the other side is gone, or all its words are read and the descriptor `until` can be
        read. Raises TimeoutError: no word came for `timeout_s`; ValueError: a line is no word."""
        while b"\n" not in self._unread:
            try:
                link = self._connection.fileno()
                readable = _readable([link] if until is None else [link, until], timeout_s=timeout_s)
                data = self._connection.recv(65536) if link in readable else b""
            except (OSError, ValueError):  # the other side is gone, or our end was closed
                return None
            if not readable:
                raise TimeoutError
            if not data:
                return None
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        return decode(line.decode())

    def close(self) -> None:
        """Close this end. A thread in `receive` gets None."""
        with suppress(OSError):  # the other side has closed it
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def _readable(descriptors: Sequence[int], *, timeout_s: float | None) -> list[int]:
    poll = select.poll()  # `select.select` takes no descriptor over 1023
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(None if timeout_s is None else timeout_s * 1000)]


def decode(line: str) -> Word:
    """The word of one line. Raises ValueError."""
    fields = json.loads(line)
    kind = _WORDS.get(fields.pop("word", ""))
    if kind is None:
        raise ValueError(f"not a word: {line[:200]!r}")
    try:
        return kind(**fields)
    except TypeError as error:
        raise ValueError(f"not the fields of {kind.__name__}: {line[:200]!r}") from error
