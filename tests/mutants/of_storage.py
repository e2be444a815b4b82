"""What is weak in a storage in S3, and in a sweep by a plan."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

S3 = "tests/contract/test_s3.py::"
S3_SWEEPS = "tests/contract/test_s3_sweeps.py::"
JUDGING = "tests/unit/cleanup/test_judgement.py::"
LISTINGS = "tests/unit/storage/test_s3_listings.py::"
STAGED = "tests/unit/sinks/test_delta_staged_rule.py::"
TABLES = "tests/spark/test_linked_tables.py::"
KEPT = "tests/spark/test_kept_tables.py::"
MIRRORS = "tests/unit/takeover/test_mirror.py::"
SNAPSHOTS = "tests/unit/takeover/test_snapshots.py::"
IN_S3 = "tests/spark/test_tables_in_s3.py::"
SILENT = "tests/regressions/test_silent_namenodes.py::"
PIECES = "tests/unit/storage/test_hdfs_pieces.py::"

OF_STORAGE: Final = (
    Mutant(
        "a-silent-namenode-keeps-its-connection",
        "the next call waits on the connection that has no other end any more",
        (Change("storage/hdfs_client.py", "if self._raw is raw:", "if self._raw is None:"),),
        (SILENT + "test_a_namenode_that_never_answers_is_away",),
    ),
    Mutant(
        "the-silent-namenode-is-asked-first-again",
        "a new client begins with the first NameNode of the service, which is gone",
        (Change("storage/hdfs_client.py", "first = earlier % len(namenodes)", "first = 0"),),
        (SILENT + "test_another_namenode_is_asked_after_one_that_never_answers",),
    ),
    Mutant(
        "a-file-is-its-first-piece",
        "the rest of a blob is not read",
        (Change("storage/hdfs_client.py", "while left > 0:", "if left > 0:"),),
        (PIECES + "test_a_file_is_written_and_read_in_pieces",),
    ),
    Mutant(
        "the-first-piece-of-a-blob-is-written",
        "the rest of a blob is lost",
        (Change("storage/hdfs_client.py", "range(0, len(data), _PIECE)", "range(0, min(1, len(data)))"),),
        (PIECES + "test_a_file_is_written_and_read_in_pieces",),
    ),
    Mutant(
        "a-folder-is-its-first-page",
        "files after the first page of a listing in HDFS are not seen",
        (Change("storage/hdfs_client.py", "while page := self._ask", "if page := self._ask"),),
        (PIECES + "test_a_folder_is_listed_in_pages",),
    ),
    Mutant(
        "the-stack-of-a-namenode-is-told",
        "an error is fifteen lines of Java as one literal",
        (Change("storage/hdfs_client.py", "    if told is None:", "    if True:"),),
        ("tests/regressions/test_stacks_of_namenodes.py::test_the_words_of_a_namenode_have_no_stack",),
    ),
    Mutant(
        "a-forked-child-asks-the-threads-of-its-parent",
        "a call in a forked child waits for a thread that was not copied",
        (
            Change(
                "patience.py",
                "os.register_at_fork(after_in_child=idle.clear)",
                "os.register_at_fork(after_in_child=int)",
            ),
        ),
        ("tests/unit/test_patience.py::test_a_forked_child_has_threads_of_its_own",),
    ),
    Mutant(
        "an-object-store-keeps-folders",
        "a sink of files stages a batch in folders where none can be moved, and each batch fails",
        (Change("storage/remote.py", "keeps_folders = False", "keeps_folders = True"),),
        ("tests/unit/sinks/test_files_layouts.py::test_an_object_store_has_no_layout_of_folders",),
    ),
    Mutant(
        "listings-of-a-client",
        "what another process has written is not seen, as the client remembers that it was not there",
        (Change("storage/remote.py", '{"use_listings_cache": False} if', "{} if"),),
        (S3 + "test_what_another_process_wrote_is_seen_though_it_was_not_there_before",),
    ),
    Mutant(
        "a-lost-answer-is-somebody-else-s-blob",
        "a put that is sent again, as its answer was lost, is taken for a blob of somebody else",
        (Change("storage/s3.py", "get(_WRITE) != write:", 'get(_WRITE) != "":'),),
        (S3 + "test_a_write_whose_answer_is_lost_is_written_once_and_known_as_one_s_own",),
    ),
    Mutant(
        "any-blob-is-one-s-own",
        "a put that is refused is taken for one's own, whoever wrote what is there",
        (Change("storage/s3.py", "get(_WRITE) != write:", "get(_WRITE) is None:"),),
        (S3 + "test_a_blob_is_written_once_and_read_and_deleted",),
    ),
    Mutant(
        "a-server-that-is-away-is-no-error-of-the-storage",
        "what s3fs does not turn into an OSError goes through",
        (Change("storage/s3.py", "(*errors, BotoCoreError, *S3_RETRYABLE_ERRORS)", "errors"),),
        (S3 + "test_a_server_that_does_not_do_it_is_an_error_of_the_storage[lose-closed]",),
    ),
    Mutant(
        "folders-of-objects-stay",
        "what stands for a folder stays when the folder goes, and is listed as an orphan ever after",
        (
            Change(
                "storage/objects.py",
                "        self.delete_markers([one for one in folders",
                "        list([one for one in folders",
            ),
        ),
        (S3 + "test_a_folder_goes_with_all_that_is_in_it_and_with_what_stands_for_it",),
    ),
    Mutant(
        "the-last-page-only",
        "what comes after the first page of a listing is not seen",
        (Change("storage/objects.py", 'if not page.get("IsTruncated"):', "if True:"),),
        (S3 + "test_more_objects_than_a_call_takes_go", S3 + "test_every_object_is_listed_once_page_by_page[10000]"),
    ),
    Mutant(
        "a-part-has-one-hidden-name",
        "two tasks that write the same part of a plan write into one file",
        (Change("storage/names.py", 'f"{folder}/.{os.urandom(8).hex()}-{name}"', 'f"{folder}/.{name}"'),),
        ("tests/unit/cleanup/test_sweep_plans.py::test_two_tasks_may_write_the_same_part_at_a_time",),
    ),
    Mutant(
        "busy-keys-are-given-up",
        "of a call that went well, the keys for which the server was too busy are not tried again",
        (Change("storage/s3.py", "if code in _BUSY]", "if code in ()]"),),
        (S3_SWEEPS + "test_of_many_keys_those_that_the_server_is_too_busy_for_are_tried_again",),
    ),
    Mutant(
        "a-plan-takes-what-is-named",
        "a blob that a record names goes with the others in its folder",
        (Change("cleanup/judgement.py", "pc.and_(pc.invert(named), pc.replace", "(pc.replace"),),
        (
            JUDGING + "test_files_go_as_each_would_by_itself",
            JUDGING + "test_rows_and_columns_judge_alike_by_any_rule",
        ),
    ),
    Mutant(
        "a-folder-is-judged-by-its-own-name",
        "whatever is deep in a run directory is judged by its folder's name, which is nobody's",
        (Change("cleanup/orphans.py", 'is_orphan("/".join(parts[:3]), claims)', "is_orphan(folder, claims)"),),
        (
            JUDGING + "test_files_go_as_each_would_by_itself",
            JUDGING + "test_a_folder_s_ruling_is_that_of_each_file_in_it",
        ),
    ),
    Mutant(
        "a-plan-takes-what-the-log-names",
        "what is staged beside a table goes by a plan, also what the table has",
        (Change("sinks/staging/rule.py", "in attempts - committed}", "in attempts}"),),
        (STAGED + "test_what_is_staged_is_planned_and_removed_and_the_table_keeps_its_rows",),
    ),
    Mutant(
        "a-plan-takes-what-is-staged-now",
        "attempts of the term itself are of an earlier one to the rule that a plan of a table asks again",
        (
            Change(
                "sinks/staging/rule.py",
                "return StagedRule(about.scope, about.epoch)",
                "return StagedRule(about.scope, about.epoch + 1)",
            ),
        ),
        (STAGED + "test_a_plan_that_was_tampered_with_removes_no_data",),
    ),
    Mutant(
        "a-plan-of-a-table-removes-anything",
        "a plan of a table that somebody wrote removes the table's own data",
        (
            Change(
                "cleanup/applying.py",
                "goes and not (",
                "True and not (",
            ),
        ),
        (STAGED + "test_a_plan_that_was_tampered_with_removes_no_data",),
    ),
    Mutant(
        "keys-as-they-stand",
        "keys of a page that are not encoded as in a URL are decoded as if they were",
        (Change("storage/objects.py", 'b"<EncodingType>url</EncodingType>" not in body or ', ""),),
        (LISTINGS + "test_a_page_that_is_written_otherwise_is_left_to_a_parser",),
    ),
    Mutant(
        "tables-are-copied",
        "a state store copies its whole state when it starts",
        (Change("spark/java/LocalFiles.java", 'endsWith(".sst")', 'endsWith(".none")'),),
        (
            TABLES + "test_a_table_is_linked_and_nothing_else_is",
            TABLES + "test_successor_and_zombie_go_on_and_no_table_that_they_share_is_written_to",
        ),
    ),
    Mutant(
        "copies-into-linked-tables",
        "where a table cannot be linked, the copy writes into the bytes of the file that has the name",
        (Change("spark/java/LocalFiles.java", "        Files.deleteIfExists(target);\n", ""),),
        (
            TABLES + "test_a_name_that_is_taken_gets_another_file_and_the_old_bytes_stay",
            TABLES + "test_on_another_device_a_table_is_copied_and_no_linked_file_is_written_through",
        ),
    ),
    Mutant(
        "half-a-table-is-kept",
        "a table that was fetched by half is linked into a state store",
        (Change("spark/java/KeptTables.java", "if (length != size) {", "if (false) {"),),
        (KEPT + "test_half_a_table_is_not_linked",),
    ),
    Mutant(
        "any-file-is-a-kept-table",
        "a file of another size that has a table's name is linked into a state store",
        (Change("spark/java/KeptTables.java", "kept.isFile() && kept.length() == size", "kept.isFile()"),),
        (KEPT + "test_a_part_of_a_killed_fetch_and_a_file_of_another_size_are_not_linked",),
    ),
    Mutant(
        "kept-tables-stay",
        "the tables of states that nobody needs any more fill the disk",
        (Change("spark/java/KeptTables.java", "            HELD.remove(holder);\n", ""),),
        (KEPT + "test_tables_are_fetched_ahead_and_go_with_their_last_holder",),
    ),
    Mutant(
        "a-kept-table-is-copied-onto-a-link",
        "a table is written into the bytes of the file that has its name",
        (Change("spark/java/KeptTables.java", "            Files.deleteIfExists(target.toPath());\n", ""),),
        (KEPT + "test_a_name_that_is_taken_gets_another_file_and_the_old_bytes_stay",),
    ),
    Mutant(
        "each-rehearsal-copies-the-state",
        "each rehearsal in S3 copies all tables of the state",
        (Change("rundirs/seeding.py", "with_tables=False", "with_tables=True"),),
        (IN_S3 + "test_all_rehearsals_load_a_table_once_and_copy_none",),
    ),
    Mutant(
        "each-rehearsal-fetches-the-state",
        "each rehearsal in S3 fetches all tables of the state",
        (Change("spark/java/KeptTables.java", "kept.isFile() && kept.length() == size", "false"),),
        (IN_S3 + "test_all_rehearsals_load_a_table_once_and_copy_none",),
    ),
    Mutant(
        "snapshots-of-any-store",
        "a standby makes a snapshot without the column families of a store, and Spark reads other rows by it",
        (Change("rundirs/state_files.py", "return operator in _WITHOUT_FAMILIES", "return True"),),
        (SNAPSHOTS + "test_a_store_that_may_have_column_families_gets_none",),
    ),
    Mutant(
        "snapshots-stay-beside-the-leaders-own",
        "the leader's snapshot meets ours of the same name, which names other tables",
        (
            Change(
                "rundirs/state_copy.py",
                "        if full is not None and full == self._mirrored.snapshots.get(folder):\n",
                "        if False:\n",
            ),
        ),
        (
            SNAPSHOTS + "test_the_leaders_own_snapshot_of_the_same_version_is_taken",
            SNAPSHOTS + "test_a_takeover_takes_the_leaders_snapshot_that_came_after_the_last_copy",
        ),
    ),
    Mutant(
        "snapshots-leave-their-checksums",
        "the leader's snapshot is refused by the checksums of ours, which had its name",
        (
            Change(
                "rundirs/mirrored.py",
                "for file in (path, *checksums_of(path)):",
                "for file in (path,):",
            ),
        ),
        (SNAPSHOTS + "test_the_leaders_own_snapshot_of_the_same_version_is_taken",),
    ),
    Mutant(
        "a-replay-outlives-its-mirror",
        "what was replayed for a mirror that was taken stays in the memory of the leader's JVM",
        (
            Change(
                "takeover/mirror.py",
                "        if self._snapshots is not None:\n            self._snapshots.abandon()\n",
                "",
            ),
        ),
        (MIRRORS + "test_a_snapshot_is_put_into_the_mirror_before_it_is_taken_and_never_after",),
    ),
)
