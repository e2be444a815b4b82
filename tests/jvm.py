"""The JVM that modules share: one a worker, with the SparkSession that they ask for.

Promise: modules that ask for the same session get the same one, without queries that run and with the settings that it
was started with; one that asks for another session, or for none, finds the JVM ended. What a module leaves in the JVM
besides (classes, caches of file systems) stays for those that share it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests import leftovers

Start = Callable[[], SparkSession]


def settings_of(session: SparkSession) -> dict[str, str]:
    """The settings of a session, also before Spark 4.0, whose Python has no call for all of them."""
    known: Any = getattr(session.conf, "getAll", None)
    return dict(known) if known is not None else {row.key: row.value for row in session.sql("SET").collect()}


class SharedJvm:
    """Of one worker; used by one test at a time."""

    def __init__(self) -> None:
        self._start: Start | None = None
        self._session: SparkSession | None = None  # None: there is no JVM
        self._environment: Mapping[str, str | None] = {}

    @contextmanager
    def lent(self, start: Start) -> Iterator[SparkSession]:
        """The session that `start` starts, for a module. What `start` changes in the environment holds in the block."""
        self.only(start)
        if self._session is None:
            before = dict(os.environ)
            self._start, self._session = start, start()
            names = {name for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)}
            self._environment = {name: os.environ.get(name) for name in names}
            os.environ.clear()
            os.environ.update(before)
        settings = settings_of(self._session)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self._environment.items():
                patch.setenv(name, value) if value is not None else patch.delenv(name)
            yield self._session
        assert self._session.streams.active == [], "a module leaves no query"
        now = settings_of(self._session)
        for name in now.keys() - settings.keys():
            self._session.conf.unset(name)
        for name, value in settings.items():  # also one that the module has unset
            if now.get(name) != value:
                self._session.conf.set(name, value)

    def only(self, start: Start) -> None:
        """End the JVM of any other session."""
        if self._start is not start:
            self.end()

    def end(self) -> None:
        """End the session and its JVM, if there are any."""
        session, self._start, self._session = self._session, None, None
        if session is not None:
            session.stop()
            assert SparkContext._active_spark_context is None
            leftovers.end_own_jvm()
