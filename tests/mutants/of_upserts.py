"""What is weak in update mode into Delta, and in the snapshot that a writer keeps."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

LOG: Final = "sinks/delta/log.py"
UPSERT: Final = "sinks/delta/upsert.py"
TABLE_FILES: Final = "sinks/delta/table_files.py"
SNAPSHOTS: Final = "tests/unit/sinks/test_delta_log.py::"
MERGES: Final = "tests/unit/sinks/test_upsert.py::"

OF_UPSERTS: Final = (
    Mutant(
        "another-table-is-taken-for-the-same",
        "a table that was replaced is committed to by the files and the batch of the table before",
        (Change(LOG, "if self._mark != self._mark_of(kept.version()):", "if False:"),),
        on(SNAPSHOTS + "test_a_kept_snapshot_is_the_present_table_s", "replaced_by_a_longer_one"),
    ),
    Mutant(
        "a-failed-snapshot-is-kept",
        "a snapshot of which a part could not be read ends the query, although a new one could be read",
        (
            Change(
                LOG,
                "            self._read(kept)\n        except (DeltaError, OSError):",
                "            self._read(kept)\n        except KeyError:",
            ),
        ),
        on(SNAPSHOTS + "test_a_snapshot_is_dropped_when_anything_fails", "transaction_version"),
    ),
    Mutant(
        "null-is-no-key",
        "a row whose key has a null is added beside the row of the same key",
        (Change(UPSERT, "flagged = [name for name in names if keys[name].null_count]", "flagged: list[str] = []"),),
        on(MERGES + "test_each_type_of_a_key", "long-values3-True"),
    ),
    Mutant(
        "bounds-without-nulls",
        "a file that has a row with a null in its key is passed over by the bounds of the other keys",
        (Change(UPSERT, "None if name in nulls else ", ""),),
        (MERGES + "test_a_null_is_looked_for_in_each_file",),
    ),
    Mutant(
        "bounds-that-were-cut-are-believed",
        "a file whose greatest time was cut to milliseconds is passed over",
        (Change(TABLE_FILES, "low = pc.subtract(low, pa.scalar(_CUT))", "pass"),),
        (MERGES + "test_a_time_that_another_writer_has_cut_is_found",),
    ),
    Mutant(
        "a-part-of-a-batch-hides-another",
        "of a batch with more keys than are in memory at a time, only the last ones replace rows",
        (Change(UPSERT, "one if other is None else pc.or_(one, other)", "one"),),
        (MERGES + "test_each_part_of_a_batch_replaces_rows",),
    ),
    Mutant(
        "duplicates-in-other-parts-are-not-seen",
        "a key that stands twice in a large batch is twice in the table",
        (Change(UPSERT, "for found in (twice, *(some.slice(0, 1) for some in later)):", "for found in (twice,):"),),
        on(MERGES + "test_a_key_that_stands_twice_is_refused", "1"),
    ),
    Mutant(
        "a-merge-removes-nothing",
        "the files whose rows were copied stay in the table, rows and all",
        (Change("sinks/delta/sink.py", ", removed=merged.removed)", ")"),),
        ("tests/spark/sinks/test_delta_modes.py::test_update_replaces_by_key",),
    ),
)
