"""What is weak in the sink for plain files."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

LOG = "sinks/files/log.py"
SINK = "sinks/files/sink.py"
ENTRIES = "tests/unit/sinks/test_files_log.py::"
ROWS = "tests/spark/sinks/test_files.py::"

OF_FILES: Final = (
    Mutant(
        "an-entry-is-replaced",
        "a leader that wakes late writes over the entry of its successor's batch",
        (
            Change(
                LOG,
                'self._storage.write(self._path(batch), "\\n".join([_VERSION, *content]).encode())',
                'self._storage.replace(self._path(batch), "\\n".join([_VERSION, *content]).encode())',
            ),
        ),
        (
            ENTRIES + "test_each_batch_once_whoever_writes",
            ROWS + "test_a_leader_that_wakes_after_its_successor_changes_nothing[its batch-plain]",
        ),
    ),
    Mutant(
        "any-entry-is-ours",
        "the entry of another writer is taken for one's own, whose reply was lost",
        (Change(LOG, "is_ours = self._of_batch(batch) == lines", "is_ours = True"),),
        (
            ENTRIES + "test_each_batch_once_whoever_writes",
            ROWS + "test_a_leader_that_wakes_after_its_successor_changes_nothing[its batch-partitioned]",
        ),
    ),
    Mutant(
        "a-lost-reply-is-another-writer-s",
        "an entry whose reply was lost is taken for another writer's, and its files are removed",
        (Change(LOG, "is_ours = self._of_batch(batch) == lines", "is_ours = False"),),
        (ENTRIES + "test_a_put_whose_reply_was_lost_is_known_again",),
    ),
    Mutant(
        "a-folder-is-everybody-s",
        "a query takes the batches of another query for its own, and writes none of its rows",
        (Change(LOG, "found.query.query_id != query.query_id", "False"),),
        (
            ENTRIES + "TestOwner::test_the_folder_is_one_query_s",
            ROWS + "test_another_query_or_another_life_is_refused_before_it_stages",
        ),
    ),
    Mutant(
        "a-job-goes-on-beside-the-pipeline",
        "a batch of a job of plain Spark is taken for the pipeline's own",
        (Change(SINK, "if writers and batch.scope not in writers and not was_adopted:", "if False:"),),
        (ROWS + "test_a_job_of_plain_spark_goes_on_under_tenure_and_back",),
    ),
    Mutant(
        "files-show-before-the-plan",
        "the entry of a batch is put before the plan",
        (
            Change(
                SINK,
                "        planned()\n        if query not in self._logs:",
                "        log.add(batch.id, attempt.files)\n        planned()\n        if query not in self._logs:",
            ),
        ),
        on(ROWS + "test_nothing_is_visible_before_the_plan", "plain", "partitioned"),
    ),
    Mutant(
        "a-folder-without-a-log-shows-all",
        "Spark reads what lies in a new folder, since its log does not exist yet",
        (
            Change(
                LOG,
                "            self._storage.write(OWNER, owner.encode())\n        except BlobExists:",
                "            pass\n        except BlobExists:",
            ),
        ),
        on(ROWS + "test_nothing_is_visible_before_the_plan", "plain", "partitioned"),
    ),
    Mutant(
        "nobody-gives-a-folder-its-name",
        "the folder of a batch whose leader died before the rename never shows",
        (Change(SINK, "        self._publish(attempt.batch.id, log)\n        self._discard", "        self._discard"),),
        on(
            ROWS + "TestFolders::test_a_batch_whose_leader_died_before_the_rename_gets_its_name_from_the_next",
            "plain",
            "whole entry",
        ),
    ),
    Mutant(
        "the-sweep-takes-what-the-log-names",
        "files that the log names go as the files of a dead leader",
        (Change("sinks/files/staged_rule.py", "if path.attempt in self.named}", "if False}"),),
        on(ROWS + "test_what_attempts_of_dead_leaders_left_is_found_and_removed", "plain", "partitioned"),
    ),
    Mutant(
        "a-failed-job-empties-the-folder",
        "a job that fails removes the folder of all batches",
        (
            Change(
                "spark/java/StagedOutput.java",
                'if (context.getConfiguration().get(PREFIX, "").isEmpty()) {',
                "if (true) {",
            ),
        ),
        (ROWS + "test_a_job_that_fails_touches_no_other_file",),
    ),
    Mutant(
        "a-folder-goes-back",
        "a scope from which the query was adopted takes the folder again, and its batches beside those of the other",
        (Change(LOG, " or query.scope in found.earlier)", ")"),),
        (ENTRIES + "TestOwner::test_a_scope_that_adopted_the_query_takes_the_folder_over",),
    ),
    Mutant(
        "an-attempt-is-judged-once",
        "the files of a leader that died in a batch stay, as the batch was not in the log when they were judged",
        (Change("sinks/files/staged_rule.py", "if attempt not in named}", "if False}"),),
        (ROWS + "test_the_attempt_of_a_dead_leader_goes_once_its_batch_is_in_the_log",),
    ),
)
