"""What keeps a scope that is needed, and the fence of a scope that is removed."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

RULES: Final = "operate/removal_rules.py"
TESTS: Final = "tests/unit/operate/test_removal.py::"

OF_REMOVALS: Final = (
    Mutant(
        "living-scopes-go",
        "a scope is removed though its members live",
        (Change(RULES, "    if members:\n", "    if False:\n"),),
        (
            TESTS + "test_a_scope_whose_members_live_stays",
            TESTS + "test_a_member_that_joins_meanwhile_is_noticed",
        ),
    ),
    Mutant(
        "dirty-scopes-go",
        "a scope is removed before its cleanup is done",
        (Change(RULES, "result.stage is Stage.DIRTY", "result.stage is None"),),
        (TESTS + "test_a_scope_that_is_needed_stays",),
    ),
    Mutant(
        "removed-fences",
        "the record of the epoch goes also where a version may come again",
        (Change(RULES, "    if keeps_epoch:\n", "    if False:\n"),),
        (TESTS + "test_the_epoch_stays_where_a_version_may_come_again",),
    ),
    Mutant(
        "results-go-first",
        "a removal that is interrupted leaves a scope that runs again from the beginning",
        (Change(RULES, " or record.key.is_under(RESULTS)]", "]"),),
        (
            TESTS + "test_the_history_goes_before_the_result",
            TESTS + "test_a_removal_that_is_interrupted_is_completed_by_the_next",
        ),
    ),
)
