"""Applies a plan: removes its files, part by part, and reports what became of each.

Promise: only paths of the plan go, and of these only such as could be an orphan by their names, in the plan's epoch;
links are removed as what they are. Folders in which nothing is any more go
with their last file. A part is reported when all of it was tried, so a run that was killed goes on with the others;
what was removed already is gone, which is fine. What failed is tried again by the next run.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from tenure.blobs.folders import Folders
from tenure.blobs.trees import normal_url
from tenure.checkpoints.run_name import RUNS
from tenure.cleanup.orphans import is_orphan, nothing_seen
from tenure.clock import Clock, SystemClock
from tenure.errors import StorageError, UsageError
from tenure.retry import RetryPolicy, exponential_delay, retry
from tenure.spark.sweep.jobs import job_errors
from tenure.spark.sweep.plan import REPORT, About, Plan, unit_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE: Final = 1000
"""Keys that S3 deletes in one call."""

RETRY: Final = exponential_delay(initial=timedelta(milliseconds=200), maximum=timedelta(seconds=20), attempts=6)
"""How often one call is tried against a storage that is busy."""

REMOVED, GONE, FAILED = "removed", "gone", "failed"
_CLIMBS = re.compile(r"(?:^|/)\.{0,2}(?:/|$)")
"""A part of a path that is empty, or `.`, or `..`."""

_BUSY: Final = {errno.EBUSY, errno.EAGAIN, errno.EIO, errno.ETIMEDOUT, errno.EINTR}


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of the files so far."""

    parts: int
    of: int
    removed: int
    gone: int
    failed: int


def apply_plan(
    plan: Plan,
    *,
    storage: str,
    start_spark: Callable[[], SparkSession],
    per_second: float | None = None,
    on_progress: Callable[[Applied], None] = lambda applied: None,
    clock: Clock,
) -> Applied:
    """Remove what is in the plan, and was not removed by an earlier run. `storage`: the one that the caller means,
    which has to be the plan's. `per_second`: how many files at most, of all tasks together; None: as fast as it goes.

    Raises UsageError, StorageError (the plan's own folder), QueryFailed.
    """
    about = plan.about()
    if normal_url(storage) != normal_url(about.storage):
        raise UsageError(
            f"the plan in {plan.url} is of {about.storage}, not of {storage}", fix="name the plan's storage"
        )
    begun = progress(plan)
    todo = sorted(set(plan.parts()) - _whole(plan))
    on_progress(begun)
    if len(todo) <= 1:
        for name in todo:
            apply_part(plan.url, name, per_second=per_second, clock=clock)
        on_progress(found := progress(plan))
        return found
    spark = start_spark()
    tasks = min(len(todo), spark.sparkContext.defaultParallelism)
    share = None if per_second is None else per_second / tasks
    url = plan.url

    def work(name: str) -> str:
        apply_part(url, name, per_second=share, clock=SystemClock())
        return name

    # One partition a part: what is reported is what the next run need not do again.
    for first in range(0, len(todo), _WAVE * tasks):
        wave = todo[first : first + _WAVE * tasks]
        with job_errors("deleting"):
            spark.sparkContext.parallelize(wave, len(wave)).map(work).collect()
        on_progress(progress(plan))
    return progress(plan)


_WAVE: Final = 2
"""Parts that each core applies between two looks at the progress."""


def progress(plan: Plan) -> Applied:
    """What the reports say."""
    counts: dict[str, int] = {REMOVED: 0, GONE: 0, FAILED: 0}
    reported = plan.reported()
    for name in reported:
        for row in plan.read_report(name).group_by("outcome").aggregate([([], "count_all")]).to_pylist():
            counts[row["outcome"]] += row["count_all"]
    return Applied(len(reported), len(plan.parts()), counts[REMOVED], counts[GONE], counts[FAILED])


def _whole(plan: Plan) -> set[str]:
    """The parts of which nothing failed."""
    return {name for name in plan.reported() if FAILED not in plan.read_report(name)["outcome"].unique().to_pylist()}


def apply_part(url: str, name: str, *, per_second: float | None, clock: Clock) -> None:
    """Remove the files of one part, and report. Runs in a task. Raises StorageError: the plan's own folder."""
    plan = Plan(url)
    about = plan.about()
    paths = plan.read_files(name)["path"].to_pylist()
    ours = _ours(about)
    remover = _remover(about.storage, retry=RETRY, clock=clock)
    began_s = clock.monotonic_s()
    outcomes: list[tuple[str, str]] = []
    removable: list[str] = []
    for first in range(0, len(paths), AT_ONCE):
        some = [(path, ours(path)) for path in paths[first : first + AT_ONCE]]
        may = [path for path, is_ours in some if is_ours]
        removable += may
        tried = iter(remover.remove(may))
        outcomes += [next(tried) if is_ours else (FAILED, "Tenure does not name files so") for _, is_ours in some]
        if per_second is not None:
            ahead_s = len(outcomes) / per_second - (clock.monotonic_s() - began_s)
            if ahead_s > 0:
                clock.sleep(ahead_s)
    remover.remove_folders(removable)
    columns = [paths, [outcome for outcome, _ in outcomes], [why for _, why in outcomes]]
    plan.write_report(name, pa.table([pa.array(column, pa.string()) for column in columns], schema=REPORT))


def _ours(about: About) -> Callable[[str], bool]:
    """What tells whether a path is one that could be an orphan at all."""
    least = nothing_seen(epoch=about.epoch, holder=about.holder)
    units: dict[str, bool] = {}

    def is_ours(path: str) -> bool:
        if _CLIMBS.search(path.removesuffix("/")):
            return False
        unit = unit_of(path)
        if unit == path:
            return is_orphan(path, least)
        if unit not in units:
            units[unit] = is_orphan(unit, least)
        return units[unit]

    return is_ours


class _Local:
    """Files on a local disk."""

    def __init__(self, root: str, *, retry: RetryPolicy, clock: Clock) -> None:
        self._root = os.path.realpath(root)  # the root is where the user says it is; below it no link is followed
        self._retry = retry
        self._clock = clock
        self._real: dict[str, bool] = {}

    def remove(self, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
        for path in paths:
            yield self._remove(path)

    def _remove(self, path: str) -> tuple[str, str]:
        folder = path.rstrip("/").rpartition("/")[0]
        if not self._is_real(folder):
            return FAILED, "a symbolic link is on the way to it"
        if path.endswith("/"):
            return REMOVED, ""  # a folder: with the others, below
        try:
            return retry(partial(_unlink, f"{self._root}/{path}"), policy=self._retry, on=OSError, clock=self._clock)
        except OSError as error:
            return FAILED, error.strerror or str(error)

    def remove_folders(self, paths: Sequence[str]) -> None:
        """The folders of these files in which nothing is any more. That of a query stays, as in the leader's sweep."""
        folders: set[str] = set()
        for path in paths:
            parts = path.rstrip("/").split("/")
            folders.update("/".join(parts[:depth]) for depth in range(3 if parts[0] == RUNS else 2, len(parts)))
            if path.endswith("/"):
                folders.add(path.rstrip("/"))
        for folder in sorted(folders, key=lambda folder: folder.count("/"), reverse=True):
            if not self._is_real(folder):
                continue
            with suppress(StorageError):  # it is listed again by the next plan
                Folders(self._root).remove_empty(folder)

    def _is_real(self, folder: str) -> bool:
        """Whether no link is on the way to a folder."""
        if not folder:
            return True
        if folder not in self._real:
            full = f"{self._root}/{folder}"
            self._real[folder] = not os.path.islink(full) and self._is_real(folder.rpartition("/")[0])
        return self._real[folder]


class _Remote:
    """Objects; on S3 a thousand a call."""

    def __init__(self, fs: Any, root: str, *, retry: RetryPolicy, clock: Clock) -> None:
        self._fs = fs
        self._root = root
        self._retry = retry
        self._clock = clock
        self._bulk = hasattr(fs, "call_s3")

    def remove(self, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
        if self._bulk:
            yield from self._remove_bulk(paths)
            return
        for path in paths:
            try:
                yield retry(partial(self._remove_one, path), policy=self._retry, on=OSError, clock=self._clock)
            except OSError as error:
                yield FAILED, str(error)

    def remove_folders(self, paths: Sequence[str]) -> None:
        """There are none."""

    def _remove_bulk(self, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
        if not paths:
            return
        bucket, _, prefix = self._root.partition("/")
        keys = [f"{prefix}/{path}" for path in paths]
        wanted = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        try:
            call = partial(self._fs.call_s3, "delete_objects", Bucket=bucket, Delete=wanted)
            answer = retry(call, policy=self._retry, on=OSError, clock=self._clock)
        except OSError as error:
            yield from ((FAILED, str(error)) for _ in paths)
            return
        failed = {one["Key"]: f"{one.get('Code', '')}: {one.get('Message', '')}" for one in answer.get("Errors", ())}
        yield from ((FAILED, failed[key]) if key in failed else (REMOVED, "") for key in keys)

    def _remove_one(self, path: str) -> tuple[str, str]:
        try:
            self._fs.rm_file(f"{self._root}/{path}")
        except FileNotFoundError:
            return GONE, ""
        return REMOVED, ""


def _unlink(full: str) -> tuple[str, str]:
    """Raises OSError: the disk is busy, and may answer otherwise a little later."""
    try:
        os.unlink(full)
    except FileNotFoundError:
        return GONE, ""
    except OSError as error:
        if error.errno in _BUSY:
            raise
        return FAILED, error.strerror or str(error)
    return REMOVED, ""


def _remover(storage: str, *, retry: RetryPolicy, clock: Clock) -> _Local | _Remote:
    fs, root = fsspec.core.url_to_fs(normal_url(storage))
    if isinstance(fs, LocalFileSystem):
        return _Local(root, retry=retry, clock=clock)
    return _Remote(fs, root.rstrip("/"), retry=retry, clock=clock)
