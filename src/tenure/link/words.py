"""The words between an agent and its driver, and the socket that carries them.

Promise: one JSON object a line, in the order in which they were sent. A word to a side that is gone is dropped;
`receive` is what tells that it is gone. Not promised: that a word which was sent is ever read.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Word:
    """Root of all words."""


# --- from the agent to its driver ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begin(Word):
    """What to run. `settings`: as `Settings.to_data` gives them."""

    settings: dict[str, Any] = field(repr=False)
    pipeline_file: str
    until_idle: bool


@dataclass(frozen=True, slots=True)
class Prepare(Word):
    """Become able to lead the scope."""

    scope: str


@dataclass(frozen=True, slots=True)
class StandBy(Word):
    """The member has a new session. What was made ready for a takeover in an earlier one must not be used any more."""


@dataclass(frozen=True, slots=True)
class Lead(Word):
    """Lead under this term (`Term.to_json`), which may be believed in until `until_s` of the machine's clock.
    `cleans`: run nothing, the pipeline has ended; remove what it left."""

    term: str
    until_s: float
    cleans: bool = False


@dataclass(frozen=True, slots=True)
class Renewed(Word):
    """The term may be believed in until `until_s`."""

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
    """The pipeline's file was loaded; `name` is the pipeline's, `file` the file's fingerprint."""

    name: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class Prepared(Word):
    """The driver can lead. `limits`: for how many seconds a query may show no progress, where it declares that."""

    limits: dict[str, float]


@dataclass(frozen=True, slots=True)
class Pulse(Word):
    """The JVM has just answered. `marks`: for each query that has a limit, what changes with its progress; None: the
    query waits for data. `lag`: of its mirrors, as `Lag` has it; None: it mirrors nothing. `trouble`: why its
    rehearsals do not succeed; None: they do, or there are none."""

    marks: dict[str, str | None]
    lag: dict[str, int] | None = None
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class Told(Word):
    """An event of the driver, as `event_to_data` gives it."""

    event: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Over(Word):
    """The leadership ended, and the driver is ready for another one. `ended` is a value of `Ended`; `error`: what it
    failed with (`error_to_data`)."""

    ended: str
    error: dict[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class Failed(Word):
    """The driver ends with this error (`error_to_data`)."""

    error: dict[str, str | None]


_WORDS: Mapping[str, type[Word]] = {
    kind.__name__: kind
    for kind in (
        *(Begin, Prepare, StandBy, Lead, Renewed, Lost, Stop, Finish, Close),
        *(Loaded, Prepared, Pulse, Told, Over, Failed),
    )
}


class Link:
    """One end of the socket. `send` may be called by any thread, `receive` by one."""

    _encoding: ClassVar[str] = "utf-8"

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._unread = b""
        self._lock = threading.Lock()  # a line is sent whole

    def send(self, word: Word) -> None:
        """Send a word; it is dropped when the other side is gone. Blocks while the other side reads nothing."""
        line = json.dumps({"word": type(word).__name__, **asdict(word)}) + "\n"
        try:
            with self._lock:
                self._connection.sendall(line.encode(self._encoding))
        except OSError:
            return  # `receive` tells that the other side is gone

    def receive(self, *, timeout_s: float | None = None) -> Word | None:
        """The next word; None: the other side is gone. Raises TimeoutError: nothing was said for `timeout_s`;
        ValueError: what came is no word."""
        while b"\n" not in self._unread:
            try:
                heard = timeout_s is None or bool(select.select([self._connection], [], [], timeout_s)[0])
                data = self._connection.recv(65536) if heard else b""
            except (OSError, ValueError):  # the other side is gone, or our end was closed
                return None
            if not heard:
                raise TimeoutError
            if not data:
                return None
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        return decode(line.decode(self._encoding))

    def close(self) -> None:
        """Close our end; a thread in `receive` gets None."""
        with suppress(OSError):  # the other side has closed it
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def decode(line: str) -> Word:
    """The word of one line. Raises ValueError."""
    found = json.loads(line)
    kind = _WORDS.get(found.pop("word", ""))
    if kind is None:
        raise ValueError(f"not a word: {line[:200]!r}")
    try:
        return kind(**found)
    except TypeError as error:
        raise ValueError(f"not the fields of {kind.__name__}: {line[:200]!r}") from error
