"""Tenure keeps PySpark pipelines running, and their output right, when a driver dies, hangs or is replaced.

A pipeline file needs `tenure.pipeline`, which makes a function the pipeline of its file, and `tenure.Job`, the
function's argument. Sinks are in `tenure.sinks`; a sink of your own is a `tenure.Sink`. A function that
`tenure.sinks.ForeachBatch` calls gets a `tenure.Batch`, and may return `tenure.Written` or raise `tenure.Fenced`.
A notebook or a service leads with `with tenure.lead(...) as leadership`, a `tenure.Leadership`; a write that comes
after its term raises `tenure.TermLost`. `leadership.handles(area)`, `tenure.WritableHandles`, keeps a `tenure.Handle`
for each thing that a term stores. A process without leadership reads and locks them with `with tenure.read(...) as
reader`, a `tenure.Reader`, whose `reader.handles(area)` is a `tenure.ReadableHandles`.

Each class of `tenure.errors` is also a name of this package. The page *Errors* of the documentation has what each says
about the write, and which call raises which. `tenure.__version__` is the version of the package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tenure.errors import (
    AccessDenied,
    BatchFailed,
    BatchMayBeShort,
    BlobExists,
    BlobNotFound,
    CleanupIncomplete,
    CommitRefused,
    Corrupt,
    CorruptBlob,
    CorruptCheckpoint,
    CorruptHandle,
    CorruptRecord,
    CorruptRunDirectory,
    DeclaredOtherwise,
    DriverDied,
    DriverHung,
    DriverStuck,
    Fenced,
    GuardFailed,
    HandleError,
    HandleExists,
    HandleLocked,
    HandleNotFound,
    InputsGone,
    LockLost,
    OutcomeUnknown,
    OutOfOrder,
    OwnerMismatch,
    PipelineFileError,
    QueryFailed,
    QueryStalled,
    SessionEnded,
    SinkUnavailable,
    SourceUnavailable,
    StorageError,
    StorageUnavailable,
    StoreError,
    StoreNotMade,
    StoreUnavailable,
    TenureError,
    TermLost,
    UnsafeToLead,
    UsageError,
)

if TYPE_CHECKING:
    from tenure.handles.handle import Handle
    from tenure.in_process.handles import ReadableHandles, WritableHandles
    from tenure.in_process.leading import Leadership, lead
    from tenure.in_process.reading import Reader, read
    from tenure.pipelines.pipeline import Job, Pipeline, pipeline
    from tenure.sinks.sink import Batch, Sink, Written

    __version__: str

__all__ = [
    "AccessDenied",
    "Batch",
    "BatchFailed",
    "BatchMayBeShort",
    "BlobExists",
    "BlobNotFound",
    "CleanupIncomplete",
    "CommitRefused",
    "Corrupt",
    "CorruptBlob",
    "CorruptCheckpoint",
    "CorruptHandle",
    "CorruptRecord",
    "CorruptRunDirectory",
    "DeclaredOtherwise",
    "DriverDied",
    "DriverHung",
    "DriverStuck",
    "Fenced",
    "GuardFailed",
    "Handle",
    "HandleError",
    "HandleExists",
    "HandleLocked",
    "HandleNotFound",
    "InputsGone",
    "Job",
    "Leadership",
    "LockLost",
    "OutOfOrder",
    "OutcomeUnknown",
    "OwnerMismatch",
    "Pipeline",
    "PipelineFileError",
    "QueryFailed",
    "QueryStalled",
    "ReadableHandles",
    "Reader",
    "SessionEnded",
    "Sink",
    "SinkUnavailable",
    "SourceUnavailable",
    "StorageError",
    "StorageUnavailable",
    "StoreError",
    "StoreNotMade",
    "StoreUnavailable",
    "TenureError",
    "TermLost",
    "UnsafeToLead",
    "UsageError",
    "WritableHandles",
    "Written",
    "lead",
    "pipeline",
    "read",
]

_LATE = {
    "Batch": "tenure.sinks.sink",
    "Handle": "tenure.handles.handle",
    "Job": "tenure.pipelines.pipeline",
    "Leadership": "tenure.in_process.leading",
    "Pipeline": "tenure.pipelines.pipeline",
    "ReadableHandles": "tenure.in_process.handles",
    "Reader": "tenure.in_process.reading",
    "Sink": "tenure.sinks.sink",
    "WritableHandles": "tenure.in_process.handles",
    "Written": "tenure.sinks.sink",
    "lead": "tenure.in_process.leading",
    "pipeline": "tenure.pipelines.pipeline",
    "read": "tenure.in_process.reading",
}
"""Name -> the module that has it, which is imported when the name is asked for: each command imports this package."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("tenure")
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module 'tenure' has no attribute {name!r}")
