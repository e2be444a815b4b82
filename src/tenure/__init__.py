"""Tenure keeps PySpark pipelines running, and their output right, when a driver dies, hangs or is replaced.

A pipeline file needs two names: `tenure.pipeline`, which makes a function the pipeline of its file, and
`tenure.Job`, what that function gets. The sinks are in `tenure.sinks`.
"""

from tenure.pipelines.pipeline import Job, Pipeline, pipeline

__all__ = ["Job", "Pipeline", "pipeline"]
