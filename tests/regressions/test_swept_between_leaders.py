"""A sweep that was planned while nobody led took the mirrors of living standbys for nobody's: applied later, it removed
files of the run directory in which one of them led by then, and nobody could take over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import place
from tests.cli.support import COUNTS, Place, tenure
from tests.cli.test_signals import member
from tests.draw import QUARTERS, only_if_drawn
from tests.kit.waiting import NEVER_S, wait_until

__all__ = ["place"]
pytestmark = pytest.mark.spark


def mirrored(place: Place, epoch: int) -> set[Path]:
    """The state files that a standby has mirrored into its directory for that epoch; without their checksums, of which
    Spark's maintenance removes some from a directory in which it has run for 15 s."""
    (runs,) = (place.storage / "rows" / "runs").iterdir()
    found = {path for run in runs.glob(f"e{epoch:08d}-*") for path in run.glob("state/0/*/*") if path.is_file()}
    return {path for path in found if path.suffix != ".crc"}


@only_if_drawn(QUARTERS[1])
def test_a_plan_that_was_made_while_nobody_led_spares_who_is_elected_later(place: Place) -> None:
    place.feed(1)
    file, plan = place.pipeline(COUNTS), str(place.folder / "plan")
    store = ("--store", f"sqlite://{place.store}", "--scope", "rows")
    storage = ("--storage", f"file://{place.storage}", "--scope", "rows")
    with member(place, file, "anna") as anna:
        anna.wait_for("BatchCommitted")
        with member(place, file, "ben") as ben:
            wait_until(lambda: mirrored(place, 2), what="what the standby mirrors")
            assert tenure("pause", *store).code == 0
            anna.kill()
            wait_until(lambda: place.look("status")["leader"] is None, what="the end of the leader's term")
            told = tenure("sweep", "plan", plan, *store, *storage[:2])
            assert told.code == 0, told.err
            assert tenure("resume", *store).code == 0
            ben.wait_for("TermWon")
            place.feed(2)
            ben.wait_for("BatchCommitted", such_that=lambda event: event["batch"] == 1)
            before = mirrored(place, 2)  # not earlier: the mirror drops what a snapshot of the leader's has replaced
            told = tenure("sweep", "apply", plan, *storage)
            assert told.code == 0, told.err
            assert before, "he leads in that run directory"
            assert before - mirrored(place, 2) == set(), "he leads in that run directory"
            ben.kill()
    with member(place, file, "carl", "--until-idle") as carl:
        assert carl.wait(timeout_s=NEVER_S) == 0, carl.output()
