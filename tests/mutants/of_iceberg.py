"""What is weak in the sink for Iceberg."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

FOLDER: Final = "sinks/iceberg/"
SINK: Final = FOLDER + "sink.py"
TABLE: Final = FOLDER + "table.py"
LEDGER: Final = FOLDER + "ledger.py"
TESTS: Final = "tests/unit/sinks/test_iceberg_"
COMMITS: Final = TESTS + "commits.py::"
MEANWHILE: Final = TESTS + "meanwhile.py::"
UPDATE: Final = TESTS + "update.py::"
VALUES: Final = "tests/spark/sinks/test_iceberg_partitions.py::test_values_are_those_of_iceberg_s_transforms"

OF_ICEBERG: Final = (
    Mutant(
        "iceberg-notes-no-batch",
        "the ledger is not set with the commit, so a batch that runs again is written again",
        (
            Change(
                TABLE,
                "noted = (SetPropertiesUpdate(updates=dict(properties)),) if properties else ()",
                "noted = ()",
            ),
        ),
        (COMMITS + "test_a_repeated_batch_is_skipped", MEANWHILE + "test_a_successor_at_each_step"),
    ),
    Mutant(
        "iceberg-asserts-no-schema",
        "a commit goes through although the columns are others by now",
        (
            Change(
                TABLE,
                'AssertCurrentSchemaId.model_validate({"current-schema-id": before.current_schema_id}),\n',
                "",
            ),
        ),
        (COMMITS + "test_a_commit_asserts_all_that_was_looked_at",),
    ),
    Mutant(
        "iceberg-asserts-no-partitions",
        "a commit goes through although the partitions are others by now",
        (
            Change(
                TABLE,
                'AssertDefaultSpecId.model_validate({"default-spec-id": before.default_spec_id}),\n',
                "",
            ),
        ),
        (COMMITS + "test_a_commit_asserts_all_that_was_looked_at",),
    ),
    Mutant(
        "iceberg-begins-without-a-snapshot",
        "the first commit has no parent, by which a late one would be kept out",
        (Change(SINK, "if is_needed and not table.begun:", "if False:"),),
        (MEANWHILE + "test_a_late_first_batch_does_not_enter_a_table_that_was_replaced",),
    ),
    Mutant(
        "iceberg-takes-lower-epochs",
        "a leader whose successor has written adds a later batch",
        (Change(LEDGER, "if self.epoch > batch.epoch:", "if False:"),),
        (COMMITS + "test_a_higher_epoch_in_the_ledger_keeps_a_later_batch_out",),
    ),
    Mutant(
        "iceberg-takes-another-scope-s-batch-for-its-own",
        "of two scopes with one copy of a checkpoint, one writes nothing",
        (Change(LEDGER, "elif self.batch >= batch.id:", "elif False:"),),
        (COMMITS + "test_two_scopes_with_one_copy_of_a_checkpoint_do_not_share_a_batch",),
    ),
    Mutant(
        "iceberg-passes-over-a-broken-ledger",
        "a ledger that does not decode counts as none, and the batch is written again",
        (
            Change(
                LEDGER,
                "        raise Corrupt(\n",
                "        return None\n        raise Corrupt(\n",
            ),
        ),
        (COMMITS + "test_a_ledger_that_does_not_decode_is_not_passed_over",),
    ),
    Mutant(
        "iceberg-forgets-what-spark-s-sink-wrote",
        "a job that moves here writes the newest batch of plain Spark once more",
        (Change(TABLE, "if of_spark is None or of_spark < batch.id:", "if True:"),),
        (COMMITS + "test_a_batch_that_spark_s_own_sink_has_committed_is_known",),
    ),
    Mutant(
        "iceberg-takes-a-lost-reply-for-another-s-commit",
        "the files of a commit whose reply was lost are deleted, and the table names them",
        (
            Change(
                SINK,
                "ours = table.holds(batch, attempt.directory) if sent else False",
                "ours = False",
            ),
        ),
        (COMMITS + "test_a_commit_whose_reply_was_lost_is_in_once",),
    ),
    Mutant(
        "iceberg-does-not-look-after-the-last-error",
        "the last of the tries has arrived, and counts as failed",
        (
            Change(
                SINK,
                "            table.refresh()\n            if table.exists and table.has(attempt.batch):\n",
                "            if False:\n",
            ),
        ),
        (COMMITS + "test_a_lost_reply_of_the_last_attempt_is_settled_too",),
    ),
    Mutant(
        "iceberg-shows-rows-before-the-plan",
        "rows are visible of a batch that another leader plans otherwise",
        (
            Change(
                SINK,
                "        planned()\n        return self._commit(attempt, table, events)",
                "        written = self._commit(attempt, table, events)\n        planned()\n        return written",
            ),
        ),
        (COMMITS + "test_nothing_is_visible_when_the_plan_is_refused",),
    ),
    Mutant(
        "iceberg-notes-no-short-batch-without-rows",
        "an attempt at a short batch with rows enters the table later",
        (Change(SINK, ' or self._mode == "complete" or attempt.batch.short', ' or self._mode == "complete"'),),
        (COMMITS + "test_a_short_batch_is_noted_without_rows",),
    ),
    Mutant(
        "iceberg-commits-what-was-staged-for-another-table",
        "files with the ids and partitions of an earlier table enter the present one",
        (Change(SINK, "if not attempt.layout.fits(table.layout):", "if False:"),),
        (MEANWHILE + "test_a_table_that_becomes_another_lets_the_batch_run_again",),
    ),
    Mutant(
        "iceberg-fails-when-others-commit",
        "a commit that others overtook ends the term",
        (Change(TABLE, "        if not self.exists or self._metadata == before:\n", "        if True:\n"),),
        (MEANWHILE + "test_other_writers_at_each_step_are_no_obstacle",),
    ),
    Mutant(
        "iceberg-reads-over-deletions",
        "rows that others have deleted come back by a merge",
        (
            Change(
                TABLE,
                "if any(one.content is ManifestContent.DELETES and _is_live(one) for one in self._manifests()):",
                "if False:",
            ),
        ),
        (UPDATE + "test_a_table_with_files_of_deletions_is_refused",),
    ),
    Mutant(
        "iceberg-takes-a-key-twice",
        "both rows of one key stand in the table",
        (Change(FOLDER + "upsert.py", "        if twice.num_rows:\n", "        if False:\n"),),
        (UPDATE + "test_a_key_of_more_columns",),
    ),
    Mutant(
        "iceberg-cuts-an-upper-bound",
        "a filter misses rows whose text is greater than the bound",
        (
            Change(
                FOLDER + "staged_files.py",
                "            return text[:place] + chr(following)\n",
                "            return text[:length]\n",
            ),
        ),
        ("tests/unit/sinks/test_iceberg_files.py::test_bounds",),
    ),
    Mutant(
        "iceberg-sweeps-what-an-expired-snapshot-may-name",
        "files that the table still has are removed",
        (
            Change(
                FOLDER + "history.py",
                "if self._staged_s(path, filesystem) > self.since_s + _APART_S",
                "if True",
            ),
        ),
        (TESTS + "staged_attempts.py::test_what_was_staged_before_the_last_missing_snapshot_stays",),
    ),
    Mutant(
        "iceberg-hashes-whole-blocks-alone",
        "a text is in another bucket than other writers look in",
        (Change(FOLDER + "hashing.py", " ^ {_spread(rest)} ^ t.n", " ^ t.n"),),
        (VALUES + "[string]",),
    ),
    Mutant(
        "iceberg-hashes-with-spark-s-seed",
        "a number is in another bucket than other writers look in",
        (Change(FOLDER + "hashing.py", 'f"aggregate({blocks}, 0L, (h, k)', 'f"aggregate({blocks}, 42L, (h, k)'),),
        tuple(f"{VALUES}[{kind}]" for kind in ("long", "date", "timestamp_ntz")),
    ),
)
