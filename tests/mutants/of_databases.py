"""What is weak in the store in PostgreSQL: conditions judged loosely, old primaries, commits that a failover loses."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

STATEMENTS: Final = "backends/postgres/statements.py"
CLIENT: Final = "backends/postgres/client.py"
CONNECTION: Final = "backends/postgres/connection.py"
FOLLOWER: Final = "backends/postgres/follower.py"
LINEAGE: Final = "backends/postgres/lineage.py"
LIVENESS: Final = "backends/postgres/liveness.py"
CONTRACT: Final = "tests/contract/test_conformance.py::TestPostgres::"
OWN: Final = "tests/contract/test_postgres.py::"
RULES: Final = "tests/unit/backends/test_postgres_rules.py::"

OF_DATABASES: Final = (
    Mutant(
        "database-fences-by-existence",
        "a guard only asks whether there is a record",
        (
            Change(
                STATEMENTS,
                "where r.revision is distinct from g.wanted",
                "where (r.revision is null) is distinct from (g.wanted is null)",
            ),
        ),
        (CONTRACT + "test_each_guard_holds_and_fails",),
    ),
    Mutant(
        "database-writes-by-an-old-judgement",
        "a commit that found no row of its scope writes, though the row came after it judged its guards",
        (Change(STATEMENTS, "where name = current_setting('tenure.locked', true) and", "where name = %(scope)s and"),),
        (OWN + "test_of_two_first_commits_of_a_scope_one_is_refused",),
    ),
    Mutant(
        "database-leaves-the-dead-to-others",
        "a member that joins where all others have died waits for somebody who looks at their sessions",
        (Change("backends/postgres/store.py", "if self._end_dead(scope):", "if False:"),),
        (CONTRACT + "test_a_commit_alone_finds_the_end_of_the_dead",),
    ),
    Mutant(
        "database-binds-to-the-dead",
        "a commit does not ask whether the session of its record is there",
        (Change(STATEMENTS, "and not exists (select from ended)\n", "\n"),),
        (OWN + "test_a_commit_asks_for_the_session_under_the_row_of_its_scope",),
    ),
    Mutant(
        "database-takes-a-cancelled-wait-for-a-commit",
        "a commit that the standby lacks counts as done",
        (Change(CLIENT, "if reply.unreplicated:", "if False:"),),
        (OWN + "test_a_cancelled_wait_for_the_standby_is_an_unknown_outcome",),
    ),
    Mutant(
        "database-follows-old-primaries",
        "a server of a lower timeline is taken",
        (Change(LINEAGE, "if found.timeline < known.timeline:", "if found.timeline < 0:"),),
        (RULES + "test_a_refused_server_changes_no_memory",),
    ),
    Mutant(
        "database-takes-a-restart-for-a-death",
        "a lock that went with its server counts as free",
        (Change(LIVENESS, "if row.held or row.home != home:", "if row.held:"),),
        (RULES + "test_after_a_restart_the_renewals_alone_count", OWN + "test_a_restart_of_the_server_ends_no_session"),
    ),
    Mutant(
        "database-stays-deaf",
        "a line on which no announcement arrives is kept",
        (Change(FOLLOWER, "hears = not (is_late and", "hears = not (False and"),),
        (OWN + "test_a_line_that_does_not_hear_is_found_and_mended",),
    ),
    Mutant(
        "database-without-fsync",
        "a server that may lose commits is taken",
        (Change(CONNECTION, 'if fsync == "off":', 'if fsync == "never":'),),
        on(RULES + "test_a_server_that_may_lose_commits_is_unfit", "settings2-fsync = off"),
    ),
    Mutant(
        "database-never-announces",
        "a commit wakes nobody before the next look",
        (Change(STATEMENTS, "commit;\nselect pg_notify(%(channel)s, name", "commit;\nselect (%(channel)s, name"),),
        (OWN + "test_a_commit_wakes_by_its_announcement",),
    ),
)
