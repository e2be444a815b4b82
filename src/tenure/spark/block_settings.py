"""Settings of a Spark session for the queries that start within a block: each query has its own copy of the session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def block_settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings that have a value, and restore them at the end."""
    before = {name: session.conf.get(name) for name in settings}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            session.conf.set(name, str(earlier))
