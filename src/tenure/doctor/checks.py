"""The checks of a doctor, in their order.

Promise: each check has at least one line. A check that fails stops only the checks that need it, and their lines say
so. An error of Tenure is a line, too; any other error is a bug, and ends the doctor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tenure.coordination.examination import Grade, Remark
from tenure.doctor import of_host, of_members, of_pipeline, of_storage, of_store
from tenure.doctor.case import Case, NotMade
from tenure.errors import TenureError

_NOT_MADE: Final = "not made: "


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One check. `looks`: what it looks at, for the page. `otherwise`: what it means that it fails. `needs`: the checks
    without which it cannot be made."""

    name: str
    looks: str
    otherwise: str
    look: Callable[[Case], Iterator[Remark]]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DoctorLine:
    """One line of a doctor."""

    check: str
    remark: Remark


CHECKS: Final = (
    DoctorCheck(
        "settings",
        "each value; the files of logs; a password in the store URL; `ttl` and `stop_patience`",
        "a member does not start: exit code 2",
        of_host.look_at_settings,
    ),
    DoctorCheck(
        "python",
        "Python and PySpark are a supported pair, and `SPARK_HOME` is of the same release",
        "a driver does not start: exit code 2",
        of_host.look_at_python,
    ),
    DoctorCheck(
        "java",
        "Spark's scripts find a Java, and the Spark runs on it",
        "a driver does not start: exit code 2",
        of_host.look_at_java,
        needs=("python",),
    ),
    DoctorCheck(
        "master",
        "each master of a standalone cluster (`spark://`) listens",
        "a driver does not start",
        of_host.look_at_master,
    ),
    DoctorCheck(
        "tmpdir",
        "it can be written to, and has room",
        "a driver does not start: exit code 2",
        of_host.look_at_temporary_folder,
    ),
    DoctorCheck(
        "memory",
        "the free memory of the host, or of the container, holds one more driver",
        "the kernel may end a driver",
        of_host.look_at_memory,
        needs=("settings",),
    ),
    DoctorCheck(
        "http", "the address of `--http` is free", "a member does not start: exit code 2", of_host.look_at_http
    ),
    DoctorCheck(
        "pipeline",
        "the file of `--for` loads, and holds one pipeline",
        "a member does not start",
        of_pipeline.look_at_pipeline,
        needs=("settings", "python"),
    ),
    DoctorCheck(
        "store",
        "it answers, and lets this user in",
        "a member does not start: exit code 2 or 4",
        of_store.look_at_store,
    ),
    DoctorCheck(
        "commits",
        "a session with this `ttl`; 20 commits in a scratch scope; a stale guard is refused; a watch wakes",
        "no member can lead: exit code 2 or 4",
        of_store.look_at_commits,
        needs=("store",),
    ),
    DoctorCheck(
        "servers",
        "each server of the store answers; etcd's alarms and history; the rights of a Kubernetes account",
        "the store may be lost with one server",
        of_store.look_at_servers,
        needs=("store",),
    ),
    DoctorCheck(
        "storage",
        "a file is written, listed and replaced; of two writers of one file, one is refused",
        "no batch can be written: exit code 6",
        of_storage.look_at_storage,
    ),
    DoctorCheck(
        "space",
        "free bytes and files of the disks of storage and store",
        "no batch can be written: exit code 6",
        of_storage.look_at_space,
    ),
    DoctorCheck(
        "owner",
        "storage and store belong to one life of the pipeline (I10)",
        "a member ends at once: exit code 11",
        of_storage.look_at_owner,
        needs=("store", "storage"),
    ),
    DoctorCheck(
        "clocks",
        "the wall clock of this host beside those of the store and the members",
        "times that people read may be wrong",
        of_store.look_at_clocks,
        needs=("store",),
    ),
    DoctorCheck(
        "members",
        "two or more, on two hosts, with one file; their rehearsals succeed; their probes answer",
        "nobody may take over",
        of_store.look_at_members,
        needs=("store",),
    ),
    DoctorCheck(
        "scrapes",
        "each member with `--http` was asked for `/metrics` in the last five minutes",
        "no alarm sees the members",
        of_members.look_at_scrapes,
        needs=("store",),
    ),
    DoctorCheck(
        "orphans",
        "what the newest sweep could not remove, as the members tell it; the storage is not walked through",
        "orphans take space",
        of_members.look_at_orphans,
        needs=("store",),
    ),
    DoctorCheck(
        "declaration",
        "Spark starts, the streams are declared, and the scope has run these streams",
        "a member does not start",
        of_pipeline.look_at_declaration,
        needs=("pipeline", "java", "store", "storage"),
    ),
    DoctorCheck(
        "targets",
        "the targets of the queries answer this user",
        "the first batch fails: exit code 8",
        of_pipeline.look_at_targets,
        needs=("pipeline", "java", "store", "storage"),
    ),
    DoctorCheck(
        "executors",
        "tasks on the executors of a cluster write to the storage; their Python and pyarrow",
        "no batch can be run",
        of_pipeline.look_at_executors,
        needs=("pipeline", "java", "store", "storage"),
    ),
    DoctorCheck(
        "rehearsal",
        "the newest batch of each query runs here, up to its commit",
        "a takeover would fail",
        of_pipeline.look_at_rehearsal,
        needs=("declaration",),
    ),
)
"""Each check stands after those that it needs."""


def examine(case: Case, checks: Sequence[DoctorCheck] = CHECKS) -> Iterator[DoctorLine]:
    """Make the checks, one after the other."""
    stopped: set[str] = set()
    for check in checks:
        lacking = [name for name in check.needs if name in stopped]
        if lacking:
            stopped.add(check.name)
            yield DoctorLine(check.name, not_made(f"it needs check {lacking[0]!r}"))
            continue
        try:
            for remark in check.look(case):
                yield DoctorLine(check.name, remark)
        except NotMade as why:
            stopped.add(check.name)
            yield DoctorLine(check.name, not_made(str(why)))
        except TenureError as error:
            stopped.add(check.name)
            yield DoctorLine(check.name, Remark(Grade.BAD, error.what, check.otherwise, error.fix or ""))


def not_made(why: str) -> Remark:
    """The line of a check that was not made."""
    return Remark(Grade.NOTE, f"{_NOT_MADE}{why}")


def is_not_made(remark: Remark) -> bool:
    """Whether this is such a line."""
    return remark.seen.startswith(_NOT_MADE)
