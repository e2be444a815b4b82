"""Tenure keeps PySpark pipelines running, and their output right, when a driver dies, hangs or is replaced.

A pipeline file needs `tenure.pipeline`, which makes a function the pipeline of its file, and `tenure.Job`, the
function's argument. Sinks are in `tenure.sinks`; a sink of your own is a `tenure.Sink`. A function that
`tenure.sinks.ForeachBatch` calls gets a `tenure.Batch`, and may return `tenure.Written` or raise `tenure.Fenced`.
A notebook or a service leads with `with tenure.lead(...) as leadership`, a `tenure.Leadership`; a write that comes
after its term raises `tenure.TermLost`. `tenure.HandleStore` keeps a `tenure.Handle` for each thing that a term stores.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tenure.errors import Fenced, TermLost
from tenure.pipelines.pipeline import Job, Pipeline, pipeline
from tenure.sinks.sink import Batch, Sink, Written

if TYPE_CHECKING:
    from tenure.handles.handle import Handle
    from tenure.handles.store import HandleStore
    from tenure.in_process import Leadership, lead

__all__ = [
    "Batch",
    "Fenced",
    "Handle",
    "HandleStore",
    "Job",
    "Leadership",
    "Pipeline",
    "Sink",
    "TermLost",
    "Written",
    "lead",
    "pipeline",
]

_LATE = {
    "Handle": "tenure.handles.handle",
    "HandleStore": "tenure.handles.store",
    "Leadership": "tenure.in_process",
    "lead": "tenure.in_process",
}
"""Names that a pipeline file does not need: imported when they are asked for."""


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module 'tenure' has no attribute {name!r}")
