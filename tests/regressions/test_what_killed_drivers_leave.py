"""A driver that is killed removes nothing: 15 to 23 MB of it stayed in the temporary folder each time, for ever."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import place
from tests.cli.support import COUNTS, Place
from tests.cli.test_signals import jvm_of, member
from tests.draw import QUARTERS, only_if_drawn
from tests.kit.members import MemberProcess
from tests.kit.waiting import NEVER_S, wait_until

__all__ = ["place"]
pytestmark = pytest.mark.spark


def unpacked(running: MemberProcess) -> Sequence[Path]:
    """The libraries that the JVM of a member has unpacked and uses."""
    driver = running.driver()
    assert driver is not None
    mapped = [Path(one.path) for one in jvm_of(psutil.Process(driver)).memory_maps()]
    return [path for path in mapped if path.suffix == ".so" and "rocksdbjni" in path.name]


def folders(place: Place) -> set[Path]:
    return {path for path in (place.folder / "tmp").iterdir() if path.name.startswith("tenure-driver-")}


@only_if_drawn(QUARTERS[2])
def test_nothing_of_a_killed_driver_stays_in_the_temporary_folder(place: Place) -> None:
    place.feed(1)
    file = place.pipeline(COUNTS)
    with member(place, file, "anna") as anna:
        anna.wait_for("BatchCommitted")
        libraries = unpacked(anna)
        assert libraries, "it has its state in RocksDB"
        (folder,) = folders(place)
        driver = anna.driver()
        assert driver is not None
        psutil.Process(driver).kill()
        left = [folder, *libraries]
        wait_until(lambda: not any(path.exists() for path in left), what="the removal below a living agent")
        anna.wait_for("MemberReady", such_that=lambda event: len(anna.events("MemberReady")) == 2)
        (second,) = folders(place)
        anna.kill()
    assert second.exists(), "who was killed removes nothing"
    theirs = place.folder / "theirs"
    (theirs / "java").mkdir(parents=True)
    place.feed(2)
    own = [f"spark.driver.extraJavaOptions=-Djava.io.tmpdir={theirs}/java", f"spark.local.dir={theirs}/spark"]
    with member(place, file, "ben", *(word for one in own for word in ("--conf", one))) as ben:
        wait_until(lambda: not second.exists(), what="the removal by the next start of another member")
        ben.wait_for("BatchCommitted")
        assert {path.parent for path in unpacked(ben)} == {theirs / "java"}, "the user's own settings are obeyed"
        assert [path.name for path in (theirs / "spark").iterdir()] != []
        ben.terminate()
        assert ben.wait(timeout_s=NEVER_S) == 0
    assert list((place.folder / "tmp").iterdir()) == []
