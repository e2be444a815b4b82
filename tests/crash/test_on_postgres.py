"""Two queries into PostgreSQL, in both modes: each kind of death of the leader, a pause inside its transaction too, and
every row is once in the tables. Nobody waits for a transaction of a leader that is paused (I3).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.ground import Ground
from tests import jvm_start
from tests.draw import TO_POSTGRES, only_if_drawn
from tests.kit.servers import PostgresServer
from tests.kit.servers.postgres import environment
from tests.mutants.mutant import PACKAGE
from tests.soak import variants
from tests.soak.plan import IN_TRANSACTION, POSTGRES, End, Moment, Plan, Query
from tests.soak.run import carry_out

ENDS = (
    End("kill", part="driver", at=Moment("planned"), able=True),
    End(IN_TRANSACTION, wake=Moment("in sink")),
    End("kill", part="host", at=Moment("in sink"), able=True),
    End("pause", part="host", at=Moment("batch"), wake=Moment("in sink")),
    End(IN_TRANSACTION, wake=Moment("seeded")),
)


@only_if_drawn(TO_POSTGRES)
@pytest.mark.timeout(900)
def test_every_row_is_once_in_the_tables_over_each_kind_of_death(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "deaths"
    queries = tuple(Query(kind, POSTGRES, "left") for kind in ("windows", "counts"))
    ground = Ground(
        f"file://{folder}/storage", str(folder / "output"), {"database": postgres.url}, database=postgres.url
    )
    members = variants.environment(PACKAGE.parent, archive=jvm_start.class_archive(options=variants.jvm_options()))
    result = carry_out(Plan(0, queries, ends=ENDS), folder, environment=members, ground=ground)
    timeline = (folder / "timeline.txt").read_text()
    assert result.findings == (), timeline
    assert timeline.count("stopped inside a transaction") == 2, timeline
    assert result.ends == {"kill": 2, "pause": 1, IN_TRANSACTION: 2}
