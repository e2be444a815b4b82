"""Mutants of what goes on once a cause has passed: a restored store, a replaced key, a driver that was not ready."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

JOINING = "coordination/joining.py"
COPY = "rundirs/state_copy.py"
FILES = "sinks/files/sink.py"
JOINS = "tests/unit/coordination/test_joining.py::"
MEMBERS = "tests/unit/agent/test_failures.py::"
SEEDS = "tests/unit/rundirs/test_seeding.py::"
RETAKES = "tests/spark/test_retaking.py::"
RESTORED = "tests/regressions/test_restored_stores.py::test_members_that_run_see_a_store_that_was_restored"

OF_RESUMPTIONS: Final = (
    Mutant(
        "etcd-never-goes-back",
        "the picture of an etcd that was restored from a backup stays as it was",
        (Change("backends/etcd/follower.py", "if int(found.header.revision) >= known:", "if True:"),),
        (
            "tests/unit/backends/test_etcd_follower.py::"
            "test_an_answer_that_is_older_than_what_was_known_before_the_question_is_of_a_backup",
            RESTORED + "[etcd]",
        ),
    ),
    Mutant(
        "zookeeper-never-lets-in-again",
        "a client waits for a line that a restored ZooKeeper never gives it",
        (
            Change(
                "backends/zookeeper/store.py", "elif now_s - self._down_s >= _OWN_TTL.total_seconds():", "elif False:"
            ),
        ),
        (RESTORED + "[zookeeper]",),
    ),
    Mutant(
        "kubernetes-never-goes-back",
        "an answer older than what was known before the question agrees with the picture",
        (Change("backends/kubernetes/followed.py", "agrees = asked_at <= at <=", "agrees = at <="),),
        (
            "tests/unit/backends/test_kubernetes_objects.py::"
            "test_knowledge_of_a_cluster_that_was_restored_is_what_its_next_list_says",
        ),
    ),
    Mutant(
        "a-bucket-never-goes-back",
        "the picture of an object that was restored from an older copy stays as it was",
        (Change("backends/buckets/followed.py", "if is_older and after is None:", "if is_older:"),),
        (
            "tests/unit/backends/test_bucket_follower.py::"
            "test_an_answer_that_is_older_than_what_was_known_before_the_question_is_of_a_restored_object",
        ),
    ),
    Mutant(
        "keys-for-good",
        "a store in S3 keeps the keys that the server has refused",
        (Change("backends/s3/client.py", "_session.cache_clear()", "return"),),
        ("tests/unit/backends/test_s3_keys.py::test_keys_that_were_replaced_are_read_again_after_a_refusal",),
    ),
    Mutant(
        "a-former-ttl-is-mine",
        "a member takes a former session with a longer ttl for another member",
        (Change(JOINING, "return waited_s > _FORMER * (other.ttl_s or 0.0)", "return True"),),
        (JOINS + "test_a_former_session_of_a_longer_ttl_is_waited_for",),
    ),
    Mutant(
        "another-of-my-name",
        "a process takes its own former session for another member",
        (Change(JOINING, "other is None or (joined_before and", "other is None or (False and"),),
        (JOINS + "test_a_process_waits_for_its_own_former_session_however_often_the_store_counts_anew",),
    ),
    Mutant(
        "the-next-driver-ends-the-member",
        "what refuses the next driver ends a member that has led",
        (Change("agent/member.py", "if not self._was_ready or isinstance(refused, SourceUnavailable):", "if True:"),),
        (MEMBERS + "test_a_driver_that_cannot_be_prepared_anew_is_tried_again",),
    ),
    Mutant(
        "a-first-driver-is-tried-for-ever",
        "a pipeline file that is wrong is tried again and again",
        (
            Change(
                "agent/member.py",
                "if not self._was_ready or isinstance(refused, SourceUnavailable):",
                "if isinstance(refused, SourceUnavailable):",
            ),
        ),
        (MEMBERS + "test_a_driver_that_was_never_ready_tells_what_is_wrong",),
    ),
    Mutant(
        "a-first-batch-proves-nothing",
        "a storage that is away ends a member whose only batch is the first",
        (
            Change(
                "agent/failures.py",
                "self._has_run or bool(newest_batches(records))",
                "self._has_run or any(batch > 0 for batch in newest_batches(records).values())",
            ),
        ),
        (MEMBERS + "test_the_storage_of_a_scope_that_ran_before_is_waited_for",),
    ),
    Mutant(
        "a-run-directory-like-a-sink",
        "the run directory of a query counts as a sink that never worked",
        (Change("driver/failures.py", "if not (stream.has_done or storage_worked):", "if not stream.has_done:"),),
        (
            "tests/unit/driver/test_failures.py::"
            "test_a_run_directory_with_a_batch_is_tried_again_though_the_sink_never_worked",
        ),
    ),
    Mutant(
        "partitions-by-the-setting",
        "a total has as many partitions as the setting for shuffles says",
        (Change(COPY, "is_alone = len(ids) == 1", "is_alone = False"),),
        (SEEDS + "test_an_operator_whose_rows_have_one_key_has_one_partition",),
    ),
    Mutant(
        "any-partition-may-be-lost",
        "an operator whose other partitions are lost counts as one of a single partition",
        (Change(COPY, 'found == {"0"} and self._has_one_key(number, text, stores)', 'found == {"0"}'),),
        (SEEDS + "test_a_lost_partition_is_none_that_never_was",),
    ),
    Mutant(
        "a-snapshot-of-4-0-as-it-is",
        "a newer Spark gets the snapshots of 4.0, which it refuses",
        (Change(COPY, "if self._point.newer and", "if False and"),),
        (SEEDS + "test_a_snapshot_of_spark_4_0_is_as_its_readers_want_it",),
    ),
    Mutant(
        "a-folder-like-a-file",
        "an empty folder of a source is missed as a file",
        (Change(COPY, "if entry.folder else [path]", "or [path]"),),
        (SEEDS + "test_a_source_of_another_kind_is_copied_as_it_is_and_nothing_is_demanded_of_it",),
    ),
    Mutant(
        "a-folder-before-the-plan",
        "a query has a folder of files before its first batch is planned",
        (
            Change(
                FILES,
                "        attempt = self._stage(rows, batch, events)",
                "        self._log().claim(query, batch=batch.id)\n        attempt = self._stage(rows, batch, events)",
            ),
        ),
        (
            "tests/spark/sinks/test_files.py::test_a_first_batch_that_was_never_planned_leaves_the_folder_to_the_next_life",
        ),
    ),
    Mutant(
        "staged-in-the-open",
        "Spark's readers see what is staged in a folder without a log",
        (Change("sinks/files/log.py", '                self._storage.write(BEGUN, b"")', "                pass"),),
        (
            "tests/spark/sinks/test_files.py::test_nothing_is_visible_before_the_plan",
            "tests/unit/sinks/test_files_log.py::TestOwner::"
            "test_a_query_whose_first_batch_was_never_planned_leaves_the_folder_free",
        ),
    ),
    Mutant(
        "a-server-that-only-reads",
        "a PostgreSQL that only reads for a while pauses the pipeline",
        (Change("sinks/postgres/database.py", "    psycopg.errors.ReadOnlySqlTransaction,\n", ""),),
        (
            "tests/spark/sinks/test_postgres.py::test_a_server_that_only_reads_is_away",
            "tests/unit/sinks/test_sql.py::test_the_words_of_a_task_tell_whether_the_server_is_away",
        ),
    ),
    Mutant(
        "patterns-are-there",
        "nobody looks for a planned file whose name looks like a pattern",
        (Change("inputs/input_files.py", "if _LIKE_A_PATTERN.search(path) is None:", "if True:"),),
        ("tests/spark/test_input_files.py::test_each_file_is_asked_for_by_its_name",),
    ),
    Mutant(
        "an-adopted-path-is-unknown",
        "the first takeover of an adopted checkpoint notes no path",
        (Change("takeover/query_takeover.py", "if way.recorded or (paths and not newest.paths):", "if way.recorded:"),),
        (RETAKES + "test_the_paths_of_an_adopted_checkpoint_are_known_from_its_first_takeover_on",),
    ),
    Mutant(
        "an-adopted-source-anywhere",
        "an adopted query reads all files of another folder",
        (Change("takeover/query_takeover.py", "if not newest.paths:", "if False:"),),
        (RETAKES + "test_an_adopted_checkpoint_of_a_source_that_lies_elsewhere_is_refused",),
    ),
    Mutant(
        "every-end-is-parquets",
        "a file of another format whose end looks like a footer counts as one without rows",
        (
            Change(
                "spark/java/StagedOutput.java",
                "private boolean isParquet() {",
                "private boolean isParquet() {\n            if (length >= MARKS) { return true; }",
            ),
        ),
        ("tests/spark/sinks/test_staged_output.py::test_a_file_of_another_format_never_counts_as_one_without_rows",),
    ),
)
