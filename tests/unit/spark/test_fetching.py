"""Drivers that fetch packages: one after the other, where they share a folder."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from tenure.spark.fetching import fetching_alone
from tests.kit.waiting import NEVER_S, wait_until

FLAG = ["--packages", "g:a:1"]


class Other:
    """Another driver, which fetches until it may end."""

    def __init__(self, arguments: list[str], settings: Mapping[str, str]) -> None:
        self.fetches = threading.Event()
        self.may_end = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(arguments, settings), daemon=True)
        self._thread.start()

    def _run(self, arguments: list[str], settings: Mapping[str, str]) -> None:
        with fetching_alone(arguments, settings):
            self.fetches.set()
            self.may_end.wait(NEVER_S)

    def end(self) -> None:
        self.may_end.set()
        self._thread.join()


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [(FLAG, {}), ([], {"spark.jars.packages": "g:a:1"}), (FLAG, {"spark.jars.ivy": "{folder}/ivy"})],
    ids=["flag", "setting", "a folder of its own"],
)
def test_the_second_waits_for_the_first(arguments: list[str], settings: Mapping[str, str], tmp_path: Path) -> None:
    settings = {name: value.format(folder=tmp_path) for name, value in settings.items()}
    with fetching_alone(arguments, settings):
        other = Other(arguments, settings)
        (lock,) = tmp_path.rglob("*.lock")
        wait_until(lambda: _waits_for(lock), what="the second to wait for the lock")
        assert not other.fetches.is_set()
    assert other.fetches.wait(NEVER_S)
    other.end()


def _waits_for(lock: Path) -> bool:
    """Whether somebody waits for the file's lock: the kernel lists waiters with an arrow."""
    inode = f":{lock.stat().st_ino} "
    return any("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


def test_without_packages_nobody_waits() -> None:
    with fetching_alone(FLAG, {}):
        other = Other(["--driver-memory", "1g"], {})
        assert other.fetches.wait(NEVER_S)
        other.end()


def test_a_folder_that_cannot_be_used_holds_up_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with fetching_alone(FLAG, {"spark.jars.ivy": str(tmp_path / "file" / "ivy")}):
        pass
