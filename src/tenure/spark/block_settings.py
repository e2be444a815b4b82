"""Settings of a Spark session for the queries that start within a block: each query has its own copy of the session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def block_settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings, and restore them at the end. A setting that nobody had set is unset."""
    if not settings:
        yield
        return
    own = session._jsparkSession.conf().getAll()
    before = {name: session.conf.get(name) if own.contains(name) else None for name in settings}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, earlier)
