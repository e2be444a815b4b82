"""Every exception of Tenure.

Promise: each error states the outcome of its write (nothing sent, nothing written, may be written), carries its facts
as fields, and prints as one line that names the thing, its value and the fix. No password stands in it. `exit_code` is
the exit code of the command line; docs/exit-codes.md lists the codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from tenure.wording import masked, on_one_line


class TenureError(Exception):
    """Root of the family. `str(error)` is one line for a person; the fields are for programs."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, fix: str | None = None) -> None:
        """`what` names the thing and its value; `fix` tells the reader how to mend that."""
        what = on_one_line(what)
        super().__init__(what)
        self.what = what
        self.fix = None if fix is None else masked(fix)
        self.query = ""
        """The query that the error ended; empty: none, or nobody knows."""
        self.batch = -1
        """The newest batch of the query that had begun; -1: none, or nobody knows."""

    def of_query(self, query: str, batch: int) -> Self:
        """Note the query that the error ended."""
        self.query, self.batch = query, batch
        return self

    def __str__(self) -> str:
        return self.what if self.fix is None else f"{self.what}; {self.fix}"


class UsageError(TenureError):
    """A flag, setting or URL that cannot be used. Nothing was started."""

    exit_code = 2


class PipelineFileError(TenureError):
    """The pipeline file cannot be loaded, or does not hold exactly one pipeline. Nothing was started."""

    exit_code = 7


class DeclaredOtherwise(TenureError):
    """The pipeline file declares other streams, or other state or sources of a query, than the scope has run, and no
    operator has allowed that; or a newer Spark has run the scope. Nothing was planned, read or written."""

    exit_code = 12


class QueryFailed(TenureError):
    """A query ended with an error of its own (user code, or Spark refused to restore it). Committed batches stay; the
    next run starts from the newest checkpoint."""

    exit_code = 8


class BatchFailed(QueryFailed):
    """A query that has committed batches before ended with an error. The batch is tried again, a limited number of
    times; then the scope is paused until an operator resumes it."""


class SourceUnavailable(QueryFailed):
    """A source that the pipeline has read before does not answer. Nothing was written; the member tries again later."""


class SinkUnavailable(QueryFailed):
    """A sink that has taken batches before, or a source that its batch reads, does not answer. The sink may have the
    batch; the batch runs again, later."""


class UnsafeToLead(TenureError):
    """`tenure doctor` found that a member could not lead here, or not safely. Nothing stays of what it wrote."""

    exit_code = 14


# --- the coordination store -------------------------------------------------------------------------------


class StoreError(TenureError):
    """Root of the errors of a coordination store."""

    exit_code = 4


class StoreUnavailable(StoreError):
    """The store cannot be reached or refuses service. Nothing was written; try again later."""


class StoreNotMade(StoreUnavailable):
    """There is no store yet at a place that could hold it. The first member makes it; a reader does not."""


class AccessDenied(StoreUnavailable):
    """The store answers, and does not permit this user the request, or a rule of the server forbids it. Nothing was
    written; waiting does not help."""


class OutcomeUnknown(StoreError):
    """The commit may have been written. Settle the commit (`coordination.settle`) before going on; discard nothing."""


class GuardFailed(StoreError):
    """The commit was refused, nothing was written. `guard` is the first guard that did not hold."""

    def __init__(self, guard: object, *, scope: str) -> None:
        super().__init__(f"commit to scope {scope!r} refused: {guard} does not hold")
        self.guard = guard
        self.scope = scope
        self.earlier_request_may_apply = False
        """An earlier request for the same commit got no answer and may still arrive: keep everything that it names."""


class SessionEnded(StoreError):
    """The session is over (expired or closed) and never comes back. Nothing was written."""

    def __init__(self, session: str, *, why: str = "it expired or was closed") -> None:
        super().__init__(f"session {session} has ended: {why}")
        self.session = session


class CommitRefused(StoreError):
    """The commit is larger than the store's guarantees allow. Nothing was sent."""


# --- leadership ---------------------------------------------------------------------------------------------


class TermLost(TenureError):
    """The term is over: another leader may be in office. The store refused the write, unless `write_is_unknown`: then
    the write may have been committed while the term lived, and nothing that the write names may be discarded (the
    orphan sweep decides). The caller stops, and never retries under this term."""

    exit_code = 3

    def __init__(self, *, scope: str, epoch: int, write_is_unknown: bool = False) -> None:
        fate = "its last write may have been committed before" if write_is_unknown else "nothing was written"
        super().__init__(f"term {epoch} of scope {scope!r} is over; {fate}")
        self.scope = scope
        self.epoch = epoch
        self.write_is_unknown = write_is_unknown


class Fenced(TenureError):
    """A sink's function raises this error: its target knows a higher epoch, and refused the write. The term is over; if
    the store confirms the term, the target belongs to another life of this pipeline, and the run ends."""

    exit_code = 3

    def __init__(self, what: str = "the target refused the epoch of this term", *, fix: str | None = None) -> None:
        super().__init__(what, fix=fix)


class CleanupIncomplete(TenureError):
    """A cleanup could not remove everything. The result of an ended pipeline stays dirty, and the next member goes on
    with the cleanup and runs nothing. The next `apply` of a sweep's plan tries again."""

    exit_code = 10

    def __init__(self, what: str, *, fix: str = "remove the causes in tenure cleanup status, and start a member"):
        super().__init__(what, fix=fix)


class OwnerMismatch(TenureError):
    """The store and the storage, or the store now and the store before, do not belong to one life of a pipeline: either
    belongs to another life, was emptied, or was restored from an older copy (I10). Nothing was planned, adopted or
    removed. A retry raises the same error until an operator restores the store or the storage."""

    exit_code = 11


class DriverDied(TenureError):
    """The driver (its process or its JVM) ended by itself, hung, or was killed. The fence judges its pending writes
    like any other late write; a new driver can be started."""

    exit_code = 9
    word: ClassVar[str] = "driver died"
    """Why its term ended."""


class DriverHung(DriverDied):
    """The driver gave no sign of life, and was killed."""

    word = "driver silent"


class QueryStalled(DriverDied):
    """A query made no progress for its declared limit, and the driver was killed."""

    word = "query stalled"


class DriverStuck(DriverDied):
    """The queries did not stop in time, and the driver was killed."""

    word = "driver stuck"


# --- bytes ----------------------------------------------------------------------------------------------------


class StorageError(TenureError):
    """The storage (file system, object store) failed: read-only, full, unreachable. The write did not happen; a part of
    its bytes may lie under a temporary name that nothing refers to."""

    exit_code = 6


class StorageUnavailable(StorageError):
    """A storage that the query has used before failed. The member tries again later."""


class BlobExists(StorageError):
    """A blob of that address exists; blobs are written once. Nothing was written."""


class BlobNotFound(StorageError):
    """No blob at that address."""


class Corrupt(TenureError):
    """Data does not decode, or its checksum is wrong. Never skipped or replaced by older data. Nothing was written."""

    exit_code = 5


class CorruptBlob(Corrupt):
    """The blob that a pointer names is missing, or its size or checksum is not the recorded one."""


class CorruptHandle(Corrupt):
    """A record in the handle store that does not decode."""


class CorruptRecord(Corrupt):
    """A leader, epoch, member or similar record that does not decode."""


class CorruptCheckpoint(Corrupt):
    """A checkpoint whose content does not decode or contradicts its name."""


class CorruptRunDirectory(Corrupt):
    """A file that a takeover needs is missing from the run directory, or does not decode."""


class InputsGone(Corrupt):
    """Planned input files or records of a batch are missing, and no run directory has the batch as done. Spark would
    read them as empty. Nothing was written."""


class BatchMayBeShort(InputsGone):
    """The inputs went while a function was called for the batch: its target may hold a part of the batch. Raised
    also where another query failed or the term is over; not where the driver ends or hangs, or the storage fails."""


# --- handles ------------------------------------------------------------------------------------------------


class HandleError(TenureError):
    """Root of the definite answers of the handle store. Nothing was written."""


class HandleExists(HandleError):
    """A handle of that name exists already."""


class HandleNotFound(HandleError):
    """No handle of that name."""


class HandleLocked(HandleError):
    """The handle `key` is locked by a reader, or pinned by an operator, and stays. Try again when it is released."""

    def __init__(self, key: str, *, pinned: bool = False) -> None:
        if pinned:
            super().__init__(f"handle {key!r} is pinned", fix="release it by tenure checkpoints unpin")
        else:
            super().__init__(f"handle {key!r} is locked", fix="try again when its readers have released it")
        self.key = key


class LockLost(HandleError):
    """The reader's lock on the handle `key` did not stand until the end of its block: the handle may have been removed
    meanwhile, and all that it names. The reader drops what it made in the block, and reads again."""

    def __init__(self, key: str) -> None:
        why = "its session ended, or an operator released it"
        super().__init__(f"the lock on handle {key!r} went before its block ended: {why}", fix="read again")
        self.key = key


class OutOfOrder(HandleError):
    """The planned checkpoint does not follow the newest checkpoint."""


# --- between processes ----------------------------------------------------------------------------------------


ErrorData = Mapping[str, str | int | None]
"""An error between two processes."""


def error_to_data(error: TenureError) -> dict[str, str | int | None]:
    """The error as data: its words, its query, and the nearest of its classes that this module has."""
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == __name__)
    return {
        "kind": kind.__name__,
        "what": error.what,
        "fix": error.fix,
        "query": error.query,
        "batch": error.batch,
    }


def error_from_data(data: ErrorData) -> TenureError:
    """The error that `error_to_data` described, with the same class, words, query and exit code. Further fields of the
    class are not set. An unknown class becomes a plain TenureError."""
    kind = globals().get(str(data["kind"]))
    if not (isinstance(kind, type) and issubclass(kind, TenureError)):
        kind = TenureError
    error: TenureError = kind.__new__(kind)
    fix = data["fix"]
    TenureError.__init__(error, str(data["what"]), fix=None if fix is None else str(fix))
    return error.of_query(str(data.get("query", "")), int(data.get("batch", -1) or 0))
