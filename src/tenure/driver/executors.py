"""Asks the executors of a cluster, by a job of Spark's: for a doctor, before anything is planned.

Promise: each task writes one file below a scratch folder of the storage, as a state store does, and the driver reads
them: so a storage that is not shared, or whose rights differ, is seen. The folder is removed. Not promised: that a task
runs on each executor.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Final

from pyspark.sql import SparkSession

from tenure.doctor.scratch import scratch_folder
from tenure.doctor.targets import ExecutorsAsked
from tenure.errors import StorageError
from tenure.scope_context import ScopeContext
from tenure.spark.errors import SPARK_ERRORS, one_line
from tenure.spark.session import runs_tasks_itself
from tenure.storage.reach import reach
from tenure.storage.urls import spark_url

_TASKS_A_CORE: Final = 2
"""A busy executor gets fewer tasks; with more tasks than cores, each gets some."""
_MOST_TASKS: Final = 200
_GROUP: Final = "tenure-doctor"
_AGAIN_S: Final = 0.5
_PATIENCE: Final = timedelta(seconds=120)
"""Executors may have to start first, on Kubernetes with their images."""


def ask_executors(spark: SparkSession, context: ScopeContext) -> None:
    """Emit `ExecutorsAsked`, where the master is that of a cluster."""
    if not runs_tasks_itself(spark):
        context.events.emit(what_executors_tell(spark, context))


def what_executors_tell(
    spark: SparkSession, context: ScopeContext, *, patience: timedelta = _PATIENCE
) -> ExecutorsAsked:
    """Run the tasks, and read what they have written. `patience`: for the whole job."""
    seen, why = "", ""
    try:
        storage = reach(context.storage)
        with scratch_folder(storage, host=socket.gethostname(), clock=context.clock) as folder:
            target = f"{folder}/executors"
            tasks = _run_tasks(spark, f"{spark_url(context.storage)}/{target}", patience=patience)
            parts = [entry.name for entry in storage.entries(target) if entry.name.startswith("part-")]
            told = [line for part in parts for line in storage.read(f"{target}/{part}").decode().splitlines()]
        if len(told) == tasks:
            seen = _in_words(told)
        else:
            why = f"this host sees {len(told)} of the {tasks} files that they wrote to {context.storage}"
    except TimeoutError:
        why = f"a job of small tasks did not end within {patience.total_seconds():g} s: has the cluster free cores?"
    except StorageError as error:
        why = error.what
    except SPARK_ERRORS as error:
        why = one_line(error)
    return ExecutorsAsked(context.scope, seen=seen, why=why)


def _run_tasks(spark: SparkSession, target: str, *, patience: timedelta) -> int:
    """Let tasks write what they are. Return how many. Raises TimeoutError, Spark's own errors."""

    def report(numbers: Iterable[int]) -> Iterator[str]:
        # Imports inside: Spark's workers need not have Tenure, so they get the code itself.
        import importlib.metadata
        import json
        import platform
        import socket

        try:
            arrow = importlib.metadata.version("pyarrow")
        except importlib.metadata.PackageNotFoundError:
            arrow = ""
        for _ in numbers:
            yield json.dumps([socket.gethostname(), platform.python_version(), arrow])

    context = spark.sparkContext
    tasks = min(_TASKS_A_CORE * context.defaultParallelism, _MOST_TASKS)
    job = context.parallelize(range(tasks), tasks).mapPartitions(report)

    def save() -> None:
        context.setJobGroup(_GROUP, "tenure doctor")  # of this thread
        job.saveAsTextFile(target)

    with ThreadPoolExecutor(1, thread_name_prefix="tenure-executors") as pool:
        ran = pool.submit(save)
        try:
            ran.result(timeout=patience.total_seconds())
        except TimeoutError:
            while not wait([ran], timeout=_AGAIN_S).done:  # a job that begins only now is cancelled, too
                context.cancelJobGroup(_GROUP)
            raise
    return tasks


def _in_words(told: Iterable[str]) -> str:
    """What the executors are, by the lines of the tasks."""
    hosts, pythons, arrows = (sorted(set(one)) for one in zip(*map(json.loads, told), strict=True))
    packages = [f"Python {one}" for one in pythons] + [f"pyarrow {one}" if one else "no pyarrow" for one in arrows]
    return f"the executors on {', '.join(hosts)} write to the storage; {', '.join(packages)}"
