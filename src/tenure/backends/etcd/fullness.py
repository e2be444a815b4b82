"""How full etcd is, by its own figures, and the line that an operator needs about that.

Promise: pure. etcd does not say by its API whether it compacts by itself. So the rules rest on what it still keeps: the
first of its revisions, and a revision that is `MANY` revisions old. A line names the cure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MANY: Final = 50_000
"""So many revisions of plans have about 100 MB, and an etcd that compacts hourly has so many at 14 writes a second."""

DEFAULT_QUOTA: Final = 2 * 2**30
"""etcd's `--quota-backend-bytes` in bytes, unless it is set. Before 3.6 etcd does not say its quota by its API."""

_MUCH: Final = 0.5
"""The share of the quota from which on a long history is worth a line, also where somebody compacts now and then."""

_NOSPACE: Final = "NOSPACE"

CURE: Final = "run etcdctl compact REVISION, etcdctl defrag and etcdctl alarm disarm"
_PREVENT: Final = "start it with --auto-compaction-retention=1h, run etcdctl compact REVISION and etcdctl defrag"


@dataclass(frozen=True, slots=True)
class Kept:
    """What one server of etcd keeps."""

    newest: int
    """The newest revision."""
    in_use: int
    """The bytes of its database that hold something."""
    quota: int
    """The most bytes that its database may have; 0: it does not say so."""
    has_first: bool
    """Whether nothing was ever compacted."""
    has_many: bool
    """Whether it keeps `MANY` revisions of history."""
    alarms: tuple[str, ...] = ()
    """What it complains about."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What an operator has to know. `kind`: the same for each finding that names the same cause."""

    kind: str
    line: str


def finding_about(kept: Kept, *, compacts: bool = False) -> Finding | None:
    """The finding; None: nothing has to be done. `compacts`: members compact."""
    size = f"{_mb(kept.in_use)} of {'its quota of' if kept.quota else 'the default quota,'} {_mb(_quota(kept))}"
    if any(_NOSPACE in alarm for alarm in kept.alarms):
        return Finding("full", f"etcd is full, and refuses every write; {CURE}")
    if not kept.has_many:
        return None
    if kept.in_use >= _MUCH * _quota(kept):
        return Finding("long", f"etcd keeps more than {MANY} revisions of history, and has {size}; {_PREVENT}")
    if kept.has_first and not compacts:
        return Finding("never", f"etcd has compacted none of its {kept.newest} revisions, and has {size}; {_PREVENT}")
    return None


def _quota(kept: Kept) -> int:
    return kept.quota or DEFAULT_QUOTA


def _mb(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
