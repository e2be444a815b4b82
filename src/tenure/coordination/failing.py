"""The record of a scope's failures: what failed last, how often each batch failed, and when a member tries again.

One record, `failing`, is written by the commit by which a leader resigns over a failure. So the count survives every
change of the members. Promise: the rules are pure; `HoldOff` alone asks the clock. A member waits from the moment at
which it saw the record itself; no clock of another host counts. Not promised: that a member which starts later waits,
too: it tries at once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from itertools import islice
from typing import Final

from tenure.clock import Clock
from tenure.coordination.encoding import decode_as, encode
from tenure.coordination.records import Key, Record
from tenure.errors import CorruptRecord
from tenure.retry import RetryPolicy, exponential_delay

FAILING: Final = Key("failing")
"""What failed, and how often. Absent while all is well."""

FAILED: Final = "failed"
"""The word for the end of a term whose query failed by itself."""
SINK_AWAY: Final = "sink away"
SOURCE_AWAY: Final = "source away"
STORAGE_AWAY: Final = "storage away"

AWAY_RETRY: Final = exponential_delay(initial=timedelta(seconds=3), maximum=timedelta(minutes=1))
"""When a source, a sink or a storage that is away is tried again."""

BATCH_RETRY: Final = RetryPolicy(initial=timedelta(seconds=10), maximum=timedelta(minutes=5), factor=3.0)
"""When a failed batch is tried again: the fifth attempt comes more than six minutes after the first."""

_WHAT_MOST: Final = 600
_FIX_MOST: Final = 300
_ERRORS_MOST: Final = 10
"""How many different errors of one batch are counted."""
_SINCE_EVER: Final = 1000
_VARIES: Final = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+", flags=re.IGNORECASE)
"""The parts of an error that differ from attempt to attempt: numbers, ids, addresses."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of a leadership. `kind`: the word for the end of the term."""

    kind: str
    what: str
    """The whole cause, in one line."""
    query: str = ""
    """Empty: it concerns no query, or nobody knows."""
    batch: int = -1
    """The newest batch of the query that had begun; -1: none."""
    fix: str = ""
    """What to do or where to look. It differs from member to member, and so is no part of `error`."""

    @property
    def why(self) -> str:
        """The cause, and the fix."""
        return f"{self.what}; {self.fix}" if self.fix else self.what

    @property
    def is_away(self) -> bool:
        """Whether something does not answer: waiting helps, and there is no limit."""
        return self.kind != FAILED

    @property
    def error(self) -> str:
        """The same for each attempt that fails in the same way."""
        return hashlib.sha256(_VARIES.sub("#", self.what).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class FailedAttempts:
    """How often a batch failed. `errors`: error -> how often."""

    batch: int
    errors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failing:
    """The failures of a scope since the last progress."""

    last: Failure
    member: str
    """The leader of the failed term."""
    since: str
    """When the first of these failures came (ISO 8601, UTC), by the clock of its leader."""
    at: str
    """When the last came."""
    tries: int
    """How many failures there were."""
    again_s: float
    """How long after it sees this record a member waits before it tries again."""
    attempts: Mapping[str, FailedAttempts] = field(default_factory=dict)
    """Query -> how often its newest batch failed by itself."""

    @property
    def count(self) -> int:
        """How often the batch of the last failure failed by the same error; 0: something is away."""
        found = self.attempts.get(self.last.query)
        return 0 if self.last.is_away or found is None else found.errors.get(self.last.error, 0)

    def is_over(self, newest: Mapping[str, int]) -> bool:
        """Whether the query of the last failure has planned a later batch. `newest`: query -> its newest batch."""
        if self.last.query:
            return newest.get(self.last.query, -1) > self.last.batch
        return False

    def encode(self, *, uid: str) -> bytes:
        """The bytes of its record."""
        return encode({**asdict(self), "uid": uid})


def after(before: Failing | None, failure: Failure, *, member: str, at: str, attempts: int) -> tuple[Failing, bool]:
    """The record after one more failure, and whether it was the last allowed attempt at a batch. `attempts`: how often
    a batch may fail by the same error. After the last attempt, the count begins anew: an operator resumes."""
    failure = replace(failure, what=failure.what[:_WHAT_MOST], fix=failure.fix[:_FIX_MOST])
    known = {} if before is None else dict(before.attempts)
    since, tries = (at, 1) if before is None else (before.since, before.tries + 1)
    if failure.is_away:
        again_s = _delay_s(AWAY_RETRY, tries)
        return Failing(failure, member, since, at, tries, again_s, known), False
    earlier = known.get(failure.query)
    errors = dict(earlier.errors) if earlier is not None and earlier.batch == failure.batch else {}
    count = errors[failure.error] = errors.get(failure.error, 0) + 1
    if count >= attempts:
        known.pop(failure.query, None)
        return Failing(failure, member, since, at, tries, 0.0, known), True
    most = sorted(errors.items(), key=lambda item: (item[0] != failure.error, -item[1]))[:_ERRORS_MOST]
    known[failure.query] = FailedAttempts(failure.batch, dict(most))
    return Failing(failure, member, since, at, tries, _delay_s(BATCH_RETRY, count), known), False


def _delay_s(policy: RetryPolicy, number: int) -> float:
    """The delay after so many failures, in seconds."""
    at = min(number, _SINCE_EVER) - 1
    return round(next(islice(policy.delays_s(chance=lambda: 0.0), at, None)), 1)


def failing_in(records: Iterable[Record]) -> Failing | None:
    """The failures in the records of a scope; None: there are none, or the record does not decode."""
    record = next((record for record in records if record.key == FAILING), None)
    try:
        return None if record is None else decode_failing(record)
    except CorruptRecord:
        return None  # it orders nothing but a delay, and the next failure replaces it


def decode_failing(record: Record) -> Failing:
    """The failures of a record. Raises CorruptRecord."""
    return decode_as(Failing, record)


class HoldOff:
    """How long one contender waits after a failure. Used by one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._value: bytes | None = None  # of the last record; None: there was none
        self._looked = False
        self._until_s = float("-inf")

    def holds(self, records: Iterable[Record]) -> bool:
        """Whether the contender waits still, by the records of a scope. A record that is there at the first look is of
        an earlier time: it makes nobody wait."""
        record = next((record for record in records if record.key == FAILING), None)
        value = None if record is None else record.value
        now_s = self._clock.monotonic_s()
        if value != self._value:
            failing = None if record is None else failing_in([record])
            self._value = value
            self._until_s = now_s + failing.again_s if failing is not None and self._looked else float("-inf")
        self._looked = True
        return now_s < self._until_s
