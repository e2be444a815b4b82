"""Tenure keeps PySpark pipelines running, and their output right, when a driver dies, hangs or is replaced.

A pipeline file needs two names: `tenure.pipeline`, which makes a function the pipeline of its file, and
`tenure.Job`, what that function gets. The sinks are in `tenure.sinks`; a function that is one gets a `tenure.Batch`,
and may return `tenure.Written` or raise `tenure.Fenced`. Notebooks and services lead with
`with tenure.lead(...)`.
"""

from typing import TYPE_CHECKING, Any

from tenure.errors import Fenced
from tenure.pipelines.pipeline import Job, Pipeline, pipeline
from tenure.spark.sinks.sink import Batch, Written

if TYPE_CHECKING:
    from tenure.in_process import Leadership, lead

__all__ = ["Batch", "Fenced", "Job", "Leadership", "Pipeline", "Written", "lead", "pipeline"]


def __getattr__(name: str) -> Any:
    """`lead` and `Leadership`, imported when they are asked for: a pipeline file does not need them."""
    if name in ("Leadership", "lead"):
        from tenure import in_process

        return getattr(in_process, name)
    raise AttributeError(f"module 'tenure' has no attribute {name!r}")
