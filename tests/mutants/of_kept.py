"""What operators rely on who verify and pin checkpoints."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

INSPECTING: Final = "rundirs/inspecting.py"
VERIFYING: Final = "operate/verifying.py"
PINNING: Final = "operate/pinning.py"
PINNED: Final = "tests/unit/operate/test_pinning.py::"
PINS: Final = "tests/unit/handles/test_pins.py::"
INSPECTED: Final = "tests/unit/rundirs/test_inspecting.py::"
VERIFIED: Final = "tests/unit/operate/test_verifying.py::"

OF_KEPT: Final = (
    Mutant(
        "verify-trusts-bytes",
        "a state file with other bytes than its checksum is called whole, and Spark refuses it at the takeover",
        (Change(INSPECTING, "        if any(self.checksums(path)):\n", "        if False:\n"),),
        (INSPECTED + "test_all_damage_is_told", INSPECTED + "test_bytes_that_only_a_checksum_of_hadoop_knows"),
    ),
    Mutant(
        "verify-stops-at-the-first",
        "damage hides the damage of all files after it",
        (Change("rundirs/state_copy.py", "            if self._on_damage is None:\n", "            if True:\n"),),
        (INSPECTED + "test_all_damage_of_logs_is_told",),
    ),
    Mutant(
        "verify-takes-any-query",
        "the run directory of another query is called whole, whose batches the sink would take a second time",
        (Change(INSPECTING, "    if query_id == checkpoint.query_id:\n", "    if True:\n"),),
        (INSPECTED + "test_another_query_id",),
    ),
    Mutant(
        "verify-accuses-what-went",
        "a checkpoint that a leader drops meanwhile is called damaged",
        (Change(VERIFYING, "and not _stands(context, record)]", "and False]"),),
        (VERIFIED + "test_a_checkpoint_that_goes_meanwhile_is_not_damaged",),
    ),
    Mutant(
        "diff-shows-offsets",
        "a diff prints the offsets of any source, which may have a secret in them",
        (Change("operate/checkpoint_diff.py", 'return f"fingerprint {', 'return offset + f"fingerprint {'),),
        ("tests/unit/operate/test_checkpoint_diff.py::test_no_offset_of_another_source_is_shown",),
    ),
    Mutant(
        "unpin-moves-no-anchor",
        "a leader goes on to believe in a pin that has ended, and the checkpoint never goes",
        (Change("handles/anchor_rules.py", "    return (), (pin, move(sight, area, value))", "    return (), (pin,)"),),
        on(PINS + "test_a_known_pin_costs_no_listing_and_its_end_is_noticed", "memory", "sqlite"),
    ),
    Mutant(
        "pins-are-no-claims",
        "a sweep removes the copy of a pin, as its folder is of no epoch",
        (Change("cleanup/claims.py", " or is_pin(record)):", "):"),),
        (
            PINNED + "test_a_pinned_checkpoint_stays_whole_though_its_run_directory_loses_it",
            PINNED + "test_a_sweep_between_the_steps_takes_neither_the_copy_nor_its_source",
        ),
    ),
    Mutant(
        "pins-of-another-version",
        "a pin is made on a checkpoint that was retaken since it was read, and protects the run directory before",
        (Change("handles/pins.py", "if record is None or record.version != expected:", "if record is None:"),),
        on(PINS + "test_the_blob_of_a_pinned_handle_stays_when_it_is_replaced", "memory", "sqlite"),
    ),
    Mutant(
        "half-a-copy-is-a-pin",
        "a pin whose command died before its copy was whole is taken for a whole pin",
        (Change(PINNING, "        if found.whole:\n", "        if found.whole or not is_new:\n"),),
        (PINNED + "test_a_death_at_any_step_is_completed_by_the_same_command",),
    ),
    Mutant(
        "two-commands-one-copy",
        "a command goes on to copy for a pin that another command has taken away or over, and calls it whole",
        (Change(PINNING, "    if whole is None:\n", "    if False:\n"),),
        (PINNED + "test_a_pin_that_is_taken_away_while_it_is_copied",),
    ),
    Mutant(
        "damage-is-pinned",
        "a checkpoint that is damaged stays pinned, and looks as if it were kept",
        (Change(PINNING, "        pins.end(checkpoint_name(checkpoint.batch), only=made)  #", "        #"),),
        (PINNED + "test_a_damaged_checkpoint_is_not_pinned",),
    ),
    Mutant(
        "unpin-removes-any-folder",
        "the end of a pin removes the folder that its record names, also a run directory",
        (Change(PINNING, "if run is not None and run.is_pinned:", "if run is not None:"),),
        (PINNED + "test_a_pin_that_names_another_folder_removes_nothing_there",),
    ),
    Mutant(
        "lost-stores-go-on-from-copies",
        "the copy of a pin counts as a run directory of a query whose store was lost",
        (Change("moves/lost_store.py", "if not run.is_pinned and _is", "if _is"),),
        (PINNED + "test_a_lost_store_goes_on_from_no_copy",),
    ),
)
