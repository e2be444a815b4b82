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
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tenure.blobs.folders import Folders
from tenure.blobs.objects import AT_ONCE, Objects, above
from tenure.blobs.place import Place, reach, told
from tenure.blobs.trees import normal_url, opened_folder
from tenure.checkpoints.run_name import RUNS
from tenure.cleanup.orphans import BLOBS, REHEARSALS, is_orphan, nothing_seen, orphans_in
from tenure.clock import Clock, SystemClock
from tenure.errors import StorageError, UsageError
from tenure.retry import exponential_delay, retry
from tenure.spark.sweep.jobs import job_errors
from tenure.spark.sweep.plan import REPORT, About, Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RETRY: Final = exponential_delay(initial=timedelta(milliseconds=200), maximum=timedelta(seconds=20), attempts=6)
"""How often one call is tried against a storage that is busy."""

HERE: Final = 10
"""Parts of up to so many are not worth a JVM."""

REMOVED, GONE, FAILED = "removed", "gone", "failed"
_CALLS: Final = 4
"""Calls to an object store at a time, of one task."""
_STAYS: Final = {RUNS: 2, REHEARSALS: 1, BLOBS: 1}
"""Folders above this depth stay, as in the leader's sweep: somebody who starts may just need them."""
_STAYS_STAGED: Final = 3
"""The same for what is staged beside a table."""
_CLIMBS = re.compile(r"(?:^|/)\.{0,2}(?:/|$)")
"""A part of a path that is empty, or `.`, or `..`."""

_S3_BUSY: Final = {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "OperationAborted"}
"""S3's answers for one key of many that may be another one a little later."""

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
    here: int = HERE,
) -> Applied:
    """Remove what is in the plan, and was not removed by an earlier run. `storage`: the one that the caller means,
    which has to be the plan's. `per_second`: how many files at most, of all tasks together; None: as fast as it goes.
    `start_spark` is called when more than `here` parts are left.

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
    if len(todo) <= here:
        for name in todo:
            apply_part(plan.url, name, per_second=per_second, clock=clock)
            on_progress(progress(plan))
        return progress(plan)
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
        for row in plan.read("report", name).group_by("outcome").aggregate([([], "count_all")]).to_pylist():
            counts[row["outcome"]] += row["count_all"]
    return Applied(len(reported), len(plan.parts()), counts[REMOVED], counts[GONE], counts[FAILED])


def _whole(plan: Plan) -> set[str]:
    """The parts of which nothing failed."""
    return {name for name in plan.reported() if FAILED not in plan.read("report", name)["outcome"].unique().to_pylist()}


def apply_part(url: str, name: str, *, per_second: float | None, clock: Clock) -> None:
    """Remove the files of one part, and report. Runs in a task. Raises StorageError: the plan's own folder."""
    plan = Plan(url)
    about = plan.about()
    paths: list[str] = plan.read("files", name)["path"].to_pylist()
    remover = _remover(about.storage, clock=clock)
    began_s = clock.monotonic_s()
    outcomes: list[tuple[str, str]] = []
    removable: list[str] = []
    step = AT_ONCE if per_second is not None else _CALLS * AT_ONCE
    for first in range(0, len(paths), step):
        some = paths[first : first + step]
        may = _ours(some, about)
        ours = some if all(may) else [path for path, is_ours in zip(some, may, strict=True) if is_ours]
        removable += ours
        tried = iter(remover.remove(ours))
        outcomes += [next(tried) if is_ours else (FAILED, "Tenure does not name files so") for is_ours in may]
        if per_second is not None:
            ahead_s = len(outcomes) / per_second - (clock.monotonic_s() - began_s)
            if ahead_s > 0:
                clock.sleep(ahead_s)
    remover.remove_folders(removable)
    columns = [paths, [outcome for outcome, _ in outcomes], [why for _, why in outcomes]]
    plan.write("report", name, pa.table([pa.array(column, pa.string()) for column in columns], schema=REPORT))


def _ours(paths: Sequence[str], about: About) -> list[bool]:
    """For each whether it is one that could be an orphan at all."""
    least = nothing_seen(epoch=about.epoch, holder=about.holder)
    ruling_of = partial(_is_staged_before, about) if about.table else partial(orphans_in, seen=least)
    folder: str | None = None
    ruling: bool | None = False
    found = []
    for path in paths:
        parent, _, name = path.rpartition("/")
        if parent != folder:
            folder = parent
            ruling = False if _CLIMBS.search(folder) else ruling_of(folder)
        found.append(name not in {".", ".."} and (is_orphan(path, least) if ruling is None else ruling))
    return found


def _is_staged_before(about: About, folder: str) -> bool:
    """Whether an attempt of an earlier epoch is staged there."""
    from tenure.spark.sinks.staging import StagingPath  # what is in a storage is swept without Spark's packages

    path = StagingPath.parse(folder)
    return path is not None and path.scope == about.scope and path.epoch < about.epoch


class _Local:
    """Files on a local disk."""

    def __init__(self, root: str, *, clock: Clock) -> None:
        self._root = os.path.realpath(root)  # the root is where the user says it is; below it no link is followed
        self._clock = clock
        self._real: dict[str, bool] = {}

    def remove(self, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
        for folder, some in groupby(paths, key=lambda path: path.rpartition("/")[0]):
            yield from self._remove_in(folder, [path.rpartition("/")[2] for path in some])

    def _remove_in(self, folder: str, names: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Remove files that are directly in a folder, which is looked up once. An empty name is the folder itself,
        which goes with the others, below."""
        if not self._is_real(folder):
            return [(FAILED, "a symbolic link is on the way to it")] * len(names)
        try:
            with opened_folder(f"{self._root}/{folder}") as number:
                return [self._remove(name, number) if name else (REMOVED, "") for name in names]
        except FileNotFoundError:
            return [(GONE, "")] * len(names)
        except OSError as error:
            return [(FAILED, told(error))] * len(names)

    def _remove(self, name: str, folder: int) -> tuple[str, str]:
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return GONE, ""
        except OSError:
            return self._insist(name, folder)
        return REMOVED, ""

    def _insist(self, name: str, folder: int) -> tuple[str, str]:
        try:
            return retry(partial(_unlink, name, folder), policy=RETRY, on=OSError, clock=self._clock)
        except OSError as error:
            return FAILED, told(error)

    def remove_folders(self, paths: Sequence[str]) -> None:
        """The folders of these files in which nothing is any more. That of a query stays, as in the leader's sweep."""
        folders = Folders(self._root)
        for folder in _folders_of(paths):
            if not self._is_real(folder):
                continue
            with suppress(StorageError):  # it is listed again by the next plan
                folders.remove_empty(folder)

    def _is_real(self, folder: str) -> bool:
        """Whether no link is on the way to a folder."""
        if not folder:
            return True
        if folder not in self._real:
            full = f"{self._root}/{folder}"
            self._real[folder] = not os.path.islink(full) and self._is_real(folder.rpartition("/")[0])
        return self._real[folder]


class _S3:
    """Objects, a thousand a call, and several calls at a time."""

    def __init__(self, place: Place, *, clock: Clock) -> None:
        self._objects = Objects(place)
        self._errors = place.errors
        self._clock = clock

    def remove(self, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
        with ThreadPoolExecutor(_CALLS, thread_name_prefix="tenure-delete") as pool:
            for done in pool.map(self._remove, (paths[n : n + AT_ONCE] for n in range(0, len(paths), AT_ONCE))):
                yield from done

    def _remove(self, paths: Sequence[str]) -> list[tuple[str, str]]:
        """Remove at most `AT_ONCE`."""
        left = list(paths)
        refused: dict[str, str] = {}

        def once() -> None:
            """Raises OSError: some of them are to be tried again."""
            nonlocal left
            answer = self._objects.delete(left)
            why = {path: f"{code}: {message}" for path, (code, message) in answer.items()}
            left = [path for path, (code, _) in answer.items() if code in _S3_BUSY]
            refused.update({path: why[path] for path in why.keys() - set(left)})
            if left:
                raise OSError(errno.EBUSY, why[left[0]])

        try:
            retry(once, policy=RETRY, on=self._errors, clock=self._clock)
        except self._errors as error:
            refused.update(dict.fromkeys(left, told(error)))
        return [(FAILED, refused[path]) if path in refused else (REMOVED, "") for path in paths]

    def remove_folders(self, paths: Sequence[str]) -> None:
        """What stands for the folders; it is only an empty object, whatever else has its prefix."""
        with suppress(*self._errors):  # it is listed again by the next plan
            self._objects.delete_markers(_folders_of(paths))


class _Remote:
    """Files on what else fsspec reaches."""

    def __init__(self, url: str, *, clock: Clock) -> None:
        self._url = url
        self._place = reach(url)
        self._clock = clock

    def remove(self, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
        for path in paths:
            if path.endswith("/"):
                yield REMOVED, ""  # a folder: with the others, below
                continue
            remove = partial(self._remove, f"{self._place.root}/{path}")
            try:
                yield retry(remove, policy=RETRY, on=self._place.errors, clock=self._clock)
            except self._place.errors as error:
                yield FAILED, told(error)

    def remove_folders(self, paths: Sequence[str]) -> None:
        """Those in which nothing is any more, in HDFS; elsewhere there are none."""
        if not self._place.is_hdfs:
            return
        folders = Folders(self._url)
        for folder in _folders_of(paths):
            with suppress(StorageError):  # it is listed again by the next plan
                folders.remove_empty(folder)

    def _remove(self, full: str) -> tuple[str, str]:
        try:
            self._place.fs.rm_file(full)
        except FileNotFoundError:
            return GONE, ""
        return REMOVED, ""


def _folders_of(paths: Sequence[str]) -> list[str]:
    """The folders of these files which need not be there without them, the deepest first."""
    found = [one for one in above(paths) if one.count("/") >= _STAYS.get(one.split("/", 1)[0], _STAYS_STAGED)]
    return sorted(found, key=lambda folder: -folder.count("/"))


def _unlink(name: str, folder: int) -> tuple[str, str]:
    """Raises OSError: the disk is busy, and may answer otherwise a little later."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return GONE, ""
    except OSError as error:
        if error.errno in _BUSY:
            raise
        return FAILED, told(error)
    return REMOVED, ""


def _remover(storage: str, *, clock: Clock) -> _Local | _S3 | _Remote:
    place = reach(normal_url(storage))
    if place.is_local:
        return _Local(place.root, clock=clock)
    if place.is_s3:
        return _S3(place, clock=clock)
    return _Remote(normal_url(storage), clock=clock)
