"""A module unset a setting that the shared session was started with, and the modules after it in that worker ran
without RocksDB's change log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from tests.jvm import SharedJvm


class MadeUpConf:
    """The settings of a session."""

    def __init__(self, **known: str) -> None:
        self.getAll = known

    def set(self, name: str, value: str) -> None:
        self.getAll[name] = value

    def unset(self, name: str) -> None:
        del self.getAll[name]


def test_each_module_finds_the_settings_that_the_session_was_started_with() -> None:
    session = SimpleNamespace(conf=MadeUpConf(changed="1", gone="1", kept="1"), streams=SimpleNamespace(active=[]))

    def start() -> Any:
        return cast(Any, session)

    jvm = SharedJvm()
    with jvm.lent(start):
        session.conf.set("changed", "2")
        session.conf.set("added", "2")
        session.conf.unset("gone")
    with jvm.lent(start):
        assert session.conf.getAll == {"changed": "1", "gone": "1", "kept": "1"}
