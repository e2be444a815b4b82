"""Asks members over HTTP for what they say of themselves, and for their newest events and batches.

Promise: only addresses are asked that members announced in the store, `host:port`; no redirection is followed, and no
proxy of the environment is used. A member that does not answer within two seconds has its `trouble`. Each line is read
once; when a member was started anew, its lines are read from the first. Used by one thread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, ProxyHandler, build_opener

from tenure.coordination.candidates import Candidate

TIMEOUT_S: Final = 2.0
_MOST: Final = 4_000_000
"""Bytes of an answer that are read: a full ring of events has about one million."""
_AT_ONCE: Final = 8
_ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}\Z")


class _NoRedirections(HTTPRedirectHandler):
    def redirect_request(self, *request: Any, **named: Any) -> None:
        return None


_OPENER: Final = build_opener(ProxyHandler({}), _NoRedirections)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one member said. `status`: as `/status` has it, or the `trouble`."""

    member: str
    status: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]] = ()
    batches: Sequence[Mapping[str, Any]] = ()


@dataclass(slots=True)
class _Read:
    """How far the lines of one life of a member are read."""

    life: tuple[str, int]
    after: dict[str, int] = field(default_factory=dict)


class Asking:
    """Asks the members of one scope."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="tenure-ui-ask")
        self._read: dict[str, _Read] = {}

    def ask(self, members: Iterable[Candidate]) -> Sequence[Answer]:
        """The answers of those members that serve probes, with the new lines of each."""
        return list(self._pool.map(self._ask, [one for one in members if one.http]))

    def close(self) -> None:
        """End the threads once their questions are answered."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, one: Candidate) -> Answer:
        known = self._read.get(one.member)
        if known is None or known.life != (one.host, one.pid):
            known = self._read[one.member] = _Read((one.host, one.pid))
        try:
            status = json.loads(_get(one.http, "/status"))
            if not isinstance(status, dict) or status.get("member") != one.member:
                raise ValueError("another server answers there")
            return Answer(one.member, status, self._lines(one, known, "events"), self._lines(one, known, "batches"))
        except (OSError, ValueError, HTTPException) as error:
            return Answer(one.member, {"trouble": f"no answer at {one.http}: {error}"})

    def _lines(self, one: Candidate, known: _Read, what: str) -> Sequence[Mapping[str, Any]]:
        after = known.after.get(what, 0)
        text = _get(one.http, f"/{what}?after={after}")
        lines = [_line(line) for line in text.splitlines() if line]
        known.after[what] = max((line["number"] for line in lines), default=after)
        return [{**line, "of": one.member} for line in lines]


def _line(text: str) -> dict[str, Any]:
    """One line of an answer. Raises ValueError."""
    found = json.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get("number"), int) or not isinstance(found.get("at"), str):
        raise ValueError("it is no line of a member")
    return found


def _get(address: str, path: str) -> str:
    """The body of the answer. Raises OSError, ValueError, HTTPException."""
    if not _ADDRESS.match(address):
        raise ValueError("it is no address of a member")
    try:
        with _OPENER.open(f"http://{address}{path}", timeout=TIMEOUT_S) as answer:
            body: bytes = answer.read(_MOST)
    except HTTPError as refused:
        with refused:
            raise OSError(f"it answered {refused.code}") from refused
    return body.decode()
