"""Which tests each target of the Makefile runs: each test is in exactly one group.

Promise, closest rule first: what is marked `long`, or named in `LONG_CASES`, is long; what the commit does not draw
(`tests/draw.py`) is undrawn; what is named in `GATE` is in the gate, as are all tests in `tests/regressions` that
`BESIDE_THE_GATE` does not name; what needs no JVM and no server, in the folders of `PURE_FOLDERS`, is pure; all else is
rest if its part is drawn, and undrawn if not. So a new test needs no entry here: `GATE` names what shows that the
product works, within ten minutes in all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.draw import MEMBERS, STATES, TARGETS

TESTS: Final = Path(__file__).parent

PURE, GATE_GROUP, REST, UNDRAWN, LONG = "pure", "gate", "rest", "undrawn", "long"
GROUPS: Final = (PURE, GATE_GROUP, REST, UNDRAWN, LONG)

PURE_FOLDERS: Final = ("unit", "faults", "house", "bench")
STARTERS: Final = frozenset(
    {
        *("azurite", "etcd", "fake_gcs", "hdfs", "kafka", "kubernetes", "mariadb", "postgres", "seaweedfs"),
        *("spark", "zookeeper"),
    }
)
"""Fixtures, and parameters of that name, that start a server or a JVM."""


@dataclass(frozen=True, slots=True)
class Session:
    """One run of pytest. `workers`: how many tests at a time; `beside`: where another session runs beside it.
    `by_folder`: the files of a folder come one after the other, so that a worker ends its JVM and starts another
    (`tests/jvm.py`) once a folder; else the files with the most tests come first."""

    name: str
    folders: tuple[str, ...]
    workers: int
    beside: int
    by_folder: bool = False


def sessions() -> tuple[Session, ...]:
    """Every folder with tests, in one of them: those that mostly wait, and those with JVMs, which need the cores. With
    one worker less, each leaves a third of two cores idle where it runs alone."""
    waiting = (*PURE_FOLDERS, "contract")
    found = sorted(path.name for path in TESTS.iterdir() if any(path.rglob("test_*.py")))
    return (
        Session("waiting", waiting, workers=4, beside=3),
        Session("Spark", tuple(name for name in found if name not in waiting), workers=3, beside=2, by_folder=True),
    )


def group_of(node: str, *, is_long: bool, is_drawn: bool, starts: bool, in_part: bool = True) -> str:
    """The group of a test, by its node id. `is_drawn`: its marks are drawn; `starts`: it needs a server or a JVM;
    `in_part`: so is its part of the tests beside the gate."""
    if is_long or any(is_named(node, entry) for entry in LONG_CASES):
        return LONG
    if not is_drawn:
        return UNDRAWN
    folder = node.split("/")[1]
    if any(is_named(node, entry) for entry in BESIDE_THE_GATE):
        return REST
    if any(is_named(node, entry) for entry in GATE) or folder == "regressions":
        return GATE_GROUP
    if folder in PURE_FOLDERS and not starts:
        return PURE
    return REST if in_part else UNDRAWN


def is_named(node: str, entry: str) -> bool:
    """Whether an entry is the test itself, all its cases, its class or its file."""
    return node == entry or node.startswith((entry + "::", entry + "["))


def stale(entries: Iterable[str], nodes: Sequence[str]) -> list[str]:
    """The entries that name none of these tests though their file is among them."""
    files: Collection[str] = {node.split("::")[0] for node in nodes}
    known = [entry for entry in entries if entry.split("::")[0] in files]
    return [entry for entry in known if not any(is_named(node, entry) for node in nodes)]


GATE: Final = (
    # Each real store: the contract's cases, random histories, servers that go, a zombie's write.
    "tests/contract/test_conformance.py::test_a_store_that_fences_by_existence_fails_the_suite",
    *(
        f"tests/contract/test_conformance.py::Test{store}"
        for store in ("Memory", "Sqlite", "ZooKeeper", "Etcd", "Kubernetes")
    ),
    "tests/contract/test_machines.py::TestMemoryKeepsTheContract",
    "tests/contract/test_machines.py::TestSqliteKeepsTheContract",
    "tests/contract/test_machines.py::TestSqliteAgreesWithMemory",
    "tests/contract/test_machines.py::TestEtcdAgreesWithMemory",
    "tests/contract/test_ensembles.py::test_the_leading_server_is_killed",
    "tests/contract/test_ensembles.py::test_each_server_is_cut_off_in_turn",
    "tests/contract/test_lines.py::test_a_store_that_is_cut_off_says_so_and_comes_back",
    "tests/contract/test_zombies.py",
    "tests/contract/test_kubernetes.py",
    "tests/contract/test_sqlite_processes.py",
    "tests/contract/test_faulty_store.py",
    "tests/faults/test_fencing.py",
    "tests/faults/test_unknown_outcomes.py",
    "tests/faults/test_write_order.py",
    # The storage that is not a disk.
    "tests/contract/test_s3.py::test_a_blob_is_written_once_and_read_and_deleted",
    "tests/contract/test_s3_sweeps.py::test_what_a_dead_leader_left_goes_and_nothing_else",
    # Each kind of death, of members as users start them: driver, agent, both; killed, stopped and woken.
    "tests/crash/test_parts.py::test_somebody_goes_on_after_each_blow",
    "tests/crash/test_parts.py::test_the_output_is_right",
    "tests/crash/test_paused.py::test_a_leader_that_wakes_too_late_disturbs_nobody",
    "tests/cli/test_signals.py::test_a_member_that_is_asked_to_stop_resigns_first[15-False-0]",
    "tests/agents/test_driver_process.py",
    "tests/contract/test_wardens.py",
    "tests/agents/test_ends_of_agents.py",
    # What a user does with it: sinks, seeds and rehearsals of a takeover, sweeps, results, verbs, mistakes.
    "tests/spark/test_driver.py",
    "tests/spark/test_stream.py",
    "tests/spark/test_seeding.py::test_goes_on_in_a_seed[aggregation 2-planned]",
    "tests/spark/test_seeding.py::test_goes_on_in_a_mirror_that_followed_the_leader[aggregation 2]",
    "tests/spark/test_rehearsal.py::test_a_rehearsal_changes_nothing",
    "tests/spark/sinks/test_delta_append.py",
    "tests/spark/sinks/test_delta_fencing.py",
    "tests/spark/sinks/test_foreach_batch.py",
    "tests/cli/test_sweep.py",
    "tests/cli/test_results.py",
    "tests/cli/test_verbs.py",
    "tests/cli/test_bad_input.py",
    "tests/cli/test_handles.py",
)
"""What `make test` runs beside the pure tests: files, classes, tests, or single cases of them."""

OTHER_SPARK: Final = (
    # What differs between releases: names and signatures, the driver, a query under a term.
    "tests/unit/spark/test_releases.py",
    "tests/spark/test_driver.py",
    "tests/spark/test_stream.py",
    "tests/kafka/test_lost_records.py::test_a_batch_that_runs_again_first_ends_no_query",
)
"""What `make test-other-spark` runs with another release of Spark: files, or single tests of them."""

OTHER_SPARK_DRAWN: Final[Mapping[str, Sequence[str]]] = {
    STATES: (
        "tests/spark/test_seeding.py",
        "tests/spark/test_seeding_rate.py",
        "tests/spark/test_seeding_rows.py",
        "tests/spark/test_state_shape.py",
        "tests/spark/test_replayed_states.py",
    ),
    # Members that are killed and paused, with each kind of query; members of two releases.
    MEMBERS: ("tests/crash/test_kinds.py", "tests/crash/test_upgraded_spark.py"),
    TARGETS: ("tests/spark/sinks/test_delta_append.py",),
}
"""The name of a draw -> what a commit with it runs beside that."""

LONG_CASES: Final = (
    *(
        f"tests/unit/cleanup/test_ended_pipeline.py::test_a_crash_at_any_effect_is_mended_by_the_next_cleanup[{store}]"
        for store in ("kubernetes", "postgres", "s3")
    ),
    *(
        f"tests/contract/test_postgres_pair.py::test_a_failover_loses_no_write_and_gives_no_epoch_twice[{blow}]"
        for blow in ("killed", "cut_off")
    ),
)
"""Single cases that take minutes. On Kubernetes, a hundred members of one test all watch one ConfigMap; on PostgreSQL
and S3 each has connections of its own. Of PostgreSQL's failovers, each run tries the stopped primary, which comes back
with all that it knew."""

_STRUCK = "tests/regressions/test_struck_leaders.py::"
BESIDE_THE_GATE: Final = (
    "tests/regressions/test_jvms_that_end_early.py",
    "tests/regressions/test_late_datanodes.py",
    "tests/regressions/test_swept_between_leaders.py"
    "::test_a_plan_that_was_made_while_nobody_led_spares_who_is_elected_later",
    "tests/regressions/test_what_killed_drivers_leave.py::test_nothing_of_a_killed_driver_stays_in_the_temporary_folder",
    _STRUCK + "test_a_function_is_called_by_nobody_who_was_stopped_before_the_call_and_wakes_too_late",
    _STRUCK + "test_a_leader_that_dies_before_its_plan_loses_nothing_that_spark_has_cleaned",
    _STRUCK + "test_a_function_is_not_called_again_for_what_an_idle_leader_that_was_killed_had_done",
    "tests/regressions/test_one_owner.py::test_a_running_member_whose_store_is_taken_away_ends_with_one_line",
    "tests/regressions/test_one_owner_later.py::test_a_standby_that_outlives_what_is_forgotten_stands_by_in_the_next_life",
)
"""Regressions that `make test-rest` runs: they need HDFS, or start whole members and take 20 s to two minutes each."""
