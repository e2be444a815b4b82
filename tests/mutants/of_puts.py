"""What is weak in the files that Spark puts: of its checkpoints in S3, and staged beside a table."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

APPEND = "tests/spark/sinks/test_delta_append.py::"
FILES = "tests/spark/test_object_files.py::"
STAGED = "tests/spark/sinks/test_staged_output.py::"

OF_PUTS: Final = (
    Mutant(
        "days-of-another-calendar",
        "a setting of Spark decides which day a table has for a day before 1582",
        (Change("sinks/staging/stage.py", '    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",\n', ""),),
        on(APPEND + "test_days_before_1582_are_those_of_the_rows", "LEGACY"),
    ),
    Mutant(
        "statistics-of-other-columns",
        "a column's statistics are taken from a file whose columns are others",
        (Change("sinks/delta/staged_files.py", "places = {}  # Spark has written other columns", "pass"),),
        ("tests/regressions/test_names_of_columns.py::test_a_file_with_other_columns_has_no_statistics",),
    ),
    Mutant(
        "a-failed-put-is-silent",
        "a file of a checkpoint whose put has failed is taken for written",
        (Change("spark/java/ObjectFiles.java", "                throw error;", "                return;"),),
        (
            FILES + "test_a_put_that_fails_is_an_error[False]",
            FILES + "test_a_put_of_which_nothing_is_known_is_an_error",
            FILES + "test_a_batch_with_a_put_that_fails_ends_the_query_and_the_next_term_goes_on[commits]",
        ),
    ),
    Mutant(
        "a-checkpoint-s-file-is-replaced",
        "a file of a checkpoint that another writer has put is written over",
        (  # either of them alone makes Hadoop 3.5 put on the condition
            Change("spark/java/ObjectFiles.java", "if (conditional && !overwrite) {", "if (false) {"),
            Change(
                "spark/java/ObjectFiles.java",
                "builder.overwrite(overwrite || !conditional);",
                "builder.overwrite(true);",
            ),
        ),
        (FILES + "test_a_file_that_is_there_is_refused_and_stays",),
    ),
    Mutant(
        "a-lost-answer-is-another-writer",
        "a put that was sent twice is taken for another writer's",
        (Change("spark/java/ObjectFiles.java", "if (there != null && there.equals(write)) {", "if (false) {"),),
        (FILES + "test_a_put_whose_answer_is_lost_is_settled[False]",),
    ),
    Mutant(
        "any-checkpoint-s-file-is-ours",
        "a file of a checkpoint that another writer has put is taken for one's own",
        (Change("spark/java/ObjectFiles.java", "if (there != null && there.equals(write)) {", "if (there != null) {"),),
        (FILES + "test_another_writers_file_is_not_taken_for_ours",),
    ),
    Mutant(
        "what-failed-is-known",
        "after a put that failed, the driver still answers for its run directory",
        (Change("spark/java/ObjectFiles.java", "                    own.lose();", ""),),
        (FILES + "test_a_file_that_another_put_is_refused_though_it_is_not_known",),
    ),
    Mutant(
        "what-was-not-removed-is-gone",
        "after a removal that failed, the driver says that the file is gone",
        (Change("spark/java/ObjectFiles.java", "\n                own.lose();", ""),),
        (FILES + "test_a_file_whose_removal_failed_is_there",),
    ),
    Mutant(
        "what-was-removed-is-known",
        "the driver answers for files of its run directory that Spark has removed",
        (Change("spark/java/ObjectFiles.java", "own.removed(path);", ""),),
        (FILES + "test_a_removed_file_is_not_there",),
    ),
    Mutant(
        "state-is-known-whole",
        "the driver answers for the state, which executors write",
        (
            Change(
                "spark/java/OwnFolder.java",
                'return !relative.equals("state") && !relative.startsWith("state/");',
                "return true;",
            ),
        ),
        (FILES + "test_below_the_state_others_write_too",),
    ),
    Mutant(
        "what-was-put-again-is-old",
        "a file that was put again is read as it was before",
        (Change("spark/java/OwnFolder.java", "        drop(path.toString());\n        if (copy", "        if (copy"),),
        (FILES + "test_a_file_that_is_put_again_is_read_as_it_is",),
    ),
    Mutant(
        "any-manager-in-s3",
        "a user's class that loses files of a checkpoint in S3 is used",
        (Change("spark/hadoop.py", "if chosen not in (None, OBJECT_FILES):", "if False:"),),
        (
            FILES + "test_another_way_is_refused_in_s3_and_stays_elsewhere"
            "[org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager]",
        ),
    ),
    Mutant(
        "files-of-lost-tasks-stay",
        "the file of a task that was lost stays in the folder of an attempt that the table has",
        (Change("sinks/delta/sink.py", "if staged.again:", "if False:"),),
        (STAGED + "test_a_task_that_failed_leaves_no_file_and_is_not_listed[True]",),
    ),
    Mutant(
        "failed-tasks-keep-their-files",
        "a task that fails leaves its file",
        (Change("spark/java/StagedOutput.java", "Once.remove(path, context.getConfiguration());", ""),),
        (STAGED + "test_a_job_that_failed_leaves_nothing",),
    ),
    Mutant(
        "a-standby-does-not-rest",
        "rehearsals ask an object store as fast as they can",
        (Change("takeover/rehearsal.py", "if remaining_s > 0:", "if False:"),),
        ("tests/unit/takeover/test_pace.py::test_a_rest_makes_up_for_the_requests[28-0-20]",),
    ),
)
