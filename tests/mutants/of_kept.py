"""What operators rely on who verify and pin checkpoints."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

INSPECTING: Final = "rundirs/inspecting.py"
VERIFYING: Final = "operate/verifying.py"
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
)
