"""A standby whose rehearsals fail, and that runs another file than the leader, as `tenure list` shows it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.support import Place, tenure
from tests.kit.members import MemberProcess
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.spark

BODY = """
import os
@F.udf("long")
def here(number):
    if "LUCKLESS" in os.environ:
        raise ValueError("no luck on this machine")
    return number
job.stream("copy", source(job).select(here("id").alias("id")), sink=Delta(job.params["output"]))
"""


def member(place: Place, name: str, file: str, **environment: str) -> MemberProcess:
    arguments = ["run", file, *place.flags(ttl="10s")]
    return MemberProcess(name, folder=place.folder, arguments=arguments, environment=environment)


def test_it_says_so_in_the_list(place: Place) -> None:
    place.feed(1)
    files = [place.pipeline(BODY, name="rows"), place.pipeline(BODY, "# a comment more", name="rows2")]

    def row(name: str) -> dict[str, Any]:
        return next((one for one in place.look("list") if one["member"] == name), {})

    with member(place, "anna", files[0]) as anna:
        anna.wait_for("BatchCommitted")
        with member(place, "ben", files[1], LUCKLESS="yes") as ben:
            ben.wait_for("RehearsalFailed")
            wait_until(lambda: row("ben").get("state") == "failing", what="a failing standby")
            found = row("ben")
            told = tenure("list", "--store", f"sqlite://{place.store}", "--scope", "rows").err
            assert "ValueError: no luck on this machine" in found["trouble"], ben.output()
            assert (found["role"], found["other_file"]) == ("standby", True)
            assert f"ben: {found['trouble']}" in told
            assert f"ben: its pipeline file ({found['file']}) is not that of the leader" in told
            assert (row("anna")["other_file"], row("anna")["trouble"]) == (False, None)
