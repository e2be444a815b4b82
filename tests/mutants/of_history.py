"""What keeps the record of the terms true, and what keeps the record from deciding anything."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

HISTORY: Final = "operate/history.py"
RULES: Final = "coordination/election_rules.py"
ELECTION: Final = "coordination/election.py"
RECORDS: Final = "coordination/term_records.py"
PAST: Final = "coordination/past_members.py"
ROWS: Final = "tests/unit/operate/test_history.py::"
STEPS: Final = "tests/unit/coordination/test_election_rules.py::"

OF_HISTORY: Final = (
    Mutant(
        "outages-count-as-led",
        "a term counts until the office was found empty, though nobody saw it end",
        (Change(HISTORY, "if not term.led_at:", "if False:"),),
        (
            ROWS + "test_a_night_without_any_member_is_no_night_of_leadership",
            ROWS + "test_a_member_that_comes_into_an_empty_office_knows_the_last_batch_only",
        ),
    ),
    Mutant(
        "ends-of-others",
        "what a contender saw of an earlier term is told of the last one",
        (Change(RECORDS, 'self._led[1] if self._led[0] == office.epoch else ""', "self._led[1]"),),
        (ROWS + "test_what_was_seen_of_one_term_is_not_told_of_another",),
    ),
    Mutant(
        "told-ends-are-replaced",
        "the next grant writes what it saw over an end that the holder told",
        (Change(RULES, "last.until is None and known", "known"),),
        (STEPS + "test_a_resigned_term_keeps_its_own_end",),
    ),
    Mutant(
        "records-without-end",
        "no record of a term is ever removed",
        (Change(RULES, "*forgotten(seen.terms, newest=begun.epoch)", "*()"),),
        (
            STEPS + "test_the_oldest_records_of_terms_go_with_the_grant",
            "tests/unit/coordination/test_election.py::test_the_history_is_bounded[memory]",
        ),
    ),
    Mutant(
        "no-second-resignation",
        "a leader cannot resign whose record has just got its openings",
        (Change(ELECTION, "if not told or refused.guard != implied_guard(told[0]):", "if True:"),),
        (ROWS + "test_openings_that_came_beside_the_resignation_are_kept",),
    ),
    Mutant(
        "old-leaders-miss-members",
        "a member is missed without the guards of the term",
        (
            Change(
                "agent/past_members.py",
                "commit_under(self._store, term, writes=(write,), clock=self._clock)",
                "self._store.commit(self._scope, guards=(), writes=(write,))",
            ),
        ),
        ("tests/unit/agent/test_past_members.py::test_a_leader_notes_nothing_once_its_term_is_taken_away",),
    ),
    Mutant(
        "own-words-are-replaced",
        "a leader that misses a member forgets what the member said of its end",
        (Change(PAST, "if name not in live and not row.until:", "if name not in live:"),),
        (
            "tests/unit/coordination/test_past_members.py::"
            "test_the_own_word_of_a_member_stays_while_it_leaves_and_afterwards",
        ),
    ),
    Mutant(
        "words-of-earlier-lives",
        "the end of an earlier life is told of the member that lives",
        (Change(PAST, "row.joined > own.joined", "False"),),
        ("tests/unit/coordination/test_past_members.py::test_a_late_word_of_an_earlier_life_is_not_told_of_the_next",),
    ),
    Mutant(
        "blind-contenders-saw-the-end",
        "a contender whose store was away saw the term held until the store was back",
        (Change(HISTORY, "blind_s <= _BLIND_S", "True"),),
        (ROWS + "test_a_contender_whose_store_was_away_did_not_see_the_end",),
    ),
    Mutant(
        "silent-drivers-look-well",
        "nobody but its agent knows that a driver gives no sign of life",
        (Change("agent/member.py", 'SILENT if self._driver.silent_s > SILENT_S else ""', '""'),),
        ("tests/unit/agent/test_past_members.py::test_a_silent_driver_is_announced",),
    ),
    Mutant(
        "returning-members-are-gone",
        "a member that replaces its driver is gone without a word",
        (Change("agent/member.py", "self._past.returns(str(died))", "pass"),),
        ("tests/unit/agent/test_past_members.py::test_a_member_says_that_it_comes_back_with_another_driver",),
    ),
)
