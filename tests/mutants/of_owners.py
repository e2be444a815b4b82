"""What is weak in telling whose a storage is: somebody else's is taken for one's own, or begun anew (I10)."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

RULES = "ownership/rules.py"
OWNER = "ownership/owner.py"
MARKS = "ownership/marks.py"
IDENTITY = "coordination/identity.py"
ALL = ("memory", "sqlite", "zookeeper", "etcd")
TABLE = "tests/unit/ownership/test_rules.py::"
OWNS = "tests/unit/ownership/test_owner.py::"
NEXT = "tests/unit/ownership/test_next_life.py::"
ELECTS = "tests/unit/coordination/test_forgetting_stores.py::"
CLAIMS = "tests/contract/test_owners.py::"
SCENES = "tests/regressions/test_one_owner.py::"
LATER = "tests/regressions/test_one_owner_later.py::"

OF_OWNERS: Final = (
    Mutant(
        "begins-beside-another-store",
        "nobody looks whose the storage is before a member starts",
        (Change("assembly.py", "        context.owner().check()  #", "        #"),),
        on(SCENES + "test_of_two_stores_with_one_storage_the_second_is_refused_and_its_own_storage_is_not", "sqlite"),
    ),
    Mutant(
        "leads-in-another-s-storage",
        "nobody looks whose the storage is after a grant",
        (Change("driver/owned_work.py", "        self._owner.own(term)\n", ""),),
        (
            "tests/unit/driver/test_owned_work.py::test_a_storage_of_somebody_else_is_not_led_in_and_not_cleaned_up",
            LATER + "test_at_a_grant_a_storage_that_was_copied_back_is_refused",
        ),
    ),
    Mutant(
        "cleans-up-another-s-storage",
        "nobody looks whose the storage is before it is cleaned up",
        (Change("driver/owned_work.py", "        self._owner.check()\n        return", "        return"),),
        ("tests/unit/driver/test_owned_work.py::test_a_storage_of_somebody_else_is_not_led_in_and_not_cleaned_up",),
    ),
    Mutant(
        "leads-on-beside-another-owner",
        "a leadership whose sweep finds another owner goes on",
        (Change("driver/owned_work.py", "                    self._stop.set()\n", "                    pass\n"),),
        ("tests/unit/driver/test_owned_work.py::test_a_leadership_whose_sweep_finds_another_owner_ends_with_that",),
    ),
    Mutant(
        "ends-for-good-with-a-lost-term",
        "a member whose term is over when a sweep finds another owner ends as if asked to stop",
        (
            Change(
                "driver/owned_work.py", "            return Ended.LOST  # nobody", "            return ended  # nobody"
            ),
        ),
        ("tests/unit/driver/test_owned_work.py::test_one_whose_term_is_over_ends_as_that",),
    ),
    Mutant(
        "epoch-1-once-more",
        "a member takes office in a store that has forgotten what it has seen",
        (
            Change(
                "coordination/election.py",
                "check_follows(life_in(listing.records), self._known, scope=self._scope)",
                "life_in(listing.records)",
            ),
        ),
        (
            *on(ELECTS + "test_a_member_takes_no_office_in_an_older_copy_or_in_another_store", *ALL),
            ELECTS + "test_a_member_takes_no_office_in_a_store_that_was_emptied",
        ),
    ),
    Mutant(
        "an-older-copy-of-the-store-is-believed",
        "a member takes office in a store whose epoch is less than it has seen",
        (Change("coordination/identity.py", "if now.epoch < before.epoch:", "if False:"),),
        on(ELECTS + "test_a_member_takes_no_office_in_an_older_copy_or_in_another_store", *ALL),
    ),
    Mutant(
        "names-a-life-beside-checkpoints",
        "an identity that is missing is put again, though nobody can tell whose the checkpoints are",
        (Change("coordination/election.py", "not in by_key and not has_checkpoints(records)", "not in by_key"),),
        on(OWNS + "test_an_identity_that_was_removed_is_not_put_again_beside_checkpoints", *ALL),
    ),
    Mutant(
        "any-identity-will-do",
        "a storage that another identity has marked is taken for one's own",
        (Change(RULES, "if any(one != store.identity for one in storage.identities):", "if False:"),),
        (
            *on(OWNS + "test_a_store_that_was_emptied_is_refused_until_it_is_brought_back", *ALL),
            *on(CLAIMS + "test_of_two_stores_the_second_is_refused_and_leaves_no_trace", "local", "s3"),
        ),
    ),
    Mutant(
        "marks-ahead-of-the-store",
        "a mark of an epoch that the store has not reached is nothing",
        (Change(RULES, "newest is not None and newest.epoch > store.epoch", "False"),),
        on(OWNS + "test_an_older_copy_of_the_store_is_refused_by_its_epoch", *ALL),
    ),
    Mutant(
        "epochs-given-again",
        "a mark of an epoch that the store has given to another grant is nothing",
        (Change(RULES, "store.grants.get(mark.epoch, mark.grant) != mark.grant", "False"),),
        on(OWNS + "test_an_older_copy_of_the_store_is_refused_when_it_has_given_the_epochs_again", *ALL),
    ),
    Mutant(
        "done-ahead-of-the-store",
        "a batch that is done, and that the store has not planned, is nothing",
        (Change(RULES, "if done.batch > known.batch:", "if False:"),),
        (
            *on(OWNS + "test_an_older_copy_of_the_store_is_refused_by_a_batch_that_is_done", *ALL),
            SCENES + "test_a_store_whose_file_was_copied_within_an_epoch_is_refused_by_a_batch_that_is_done",
        ),
    ),
    Mutant(
        "done-of-a-query-that-the-store-does-not-know",
        "a batch that is done of a query without a checkpoint is nothing",
        (
            Change(
                RULES,
                "        if known is None:\n            return",
                "        if known is None:\n            continue\n            return",
            ),
        ),
        (TABLE + "test_what_is_not",),
    ),
    Mutant(
        "an-older-copy-of-the-storage-is-believed",
        "nobody asks for the mark of the epoch that wrote the newest checkpoint",
        (Change(RULES, "newest.epoch is None or newest.epoch in marked or", "True or"),),
        on(OWNS + "test_an_older_copy_of_the_storage_is_refused", *ALL),
    ),
    Mutant(
        "needed-marks-go",
        "the mark of the epoch that wrote the newest checkpoint goes with the old ones",
        (Change(RULES, " if mark.epoch not in needed]", "]"),),
        (
            *on(OWNS + "test_old_marks_go_but_for_those_that_are_asked_for", *ALL),
            TABLE + "test_marks_that_nobody_asks_for_any_more",
        ),
    ),
    Mutant(
        "a-late-leader-removes-marks-of-later-epochs",
        "whoever was paused after it read the store removes marks that were put meanwhile",
        (Change(RULES, "for mark in storage.marks if mark.epoch <= store.epoch)", "for mark in storage.marks)"),),
        (TABLE + "test_none_goes_of_epochs_that_the_reading_of_the_store_may_not_know",),
    ),
    Mutant(
        "a-successor-is-a-stranger",
        "the storage is held against what the store said before: who leads meanwhile is taken for somebody else",
        (Change(OWNER, "refusal(before, found, after)", "refusal(before, found, before)"),),
        on(
            OWNS + "test_who_is_paused_in_its_look_takes_nobody_for_a_stranger",
            *(f"{store}-before the storage" for store in ALL),
        ),
    ),
    Mutant(
        "a-mark-that-comes-late-is-missed",
        "the marks are held against what the store said after they were read: who leads meanwhile seems to have none",
        (Change(RULES, "in sorted(before.newest.items()):", "in sorted(after.newest.items()):"),),
        on(
            OWNS + "test_who_is_paused_in_its_look_takes_nobody_for_a_stranger",
            *(f"{store}-after the storage" for store in ALL),
        ),
    ),
    Mutant(
        "leads-without-a-mark",
        "the epoch of a grant leaves no mark",
        (
            Change(
                OWNER, "store))\n        self._marks.put(mark, holder=office.holder, since=office.since)\n", "store))\n"
            ),
        ),
        on(OWNS + "test_the_first_leader_marks_the_storage_and_each_later_one_its_epoch", *ALL),
    ),
    Mutant(
        "the-last-claim-stays",
        "whoever finds the storage claimed takes it all the same",
        (
            Change(
                MARKS,
                "            return self._claimed()\n        return identity",
                "            return identity\n        return identity",
            ),
        ),
        on(CLAIMS + "test_the_first_claim_stays", "local", "s3"),
    ),
    Mutant(
        "two-names-lead",
        "nobody lists the marks once more: where nothing is put if absent, two stores lead",
        (Change(OWNER, "        self._refuse(marked_by_another(found, in_store(records)))\n", ""),),
        (
            *on(CLAIMS + "test_where_nothing_is_put_if_absent_who_finds_another_mark_removes_its_own", "local", "s3"),
            *on(CLAIMS + "test_where_nothing_is_put_if_absent_two_at_once_refuse_both", "local", "s3"),
        ),
    ),
    Mutant(
        "two-copies-lead",
        "the marks that are listed once more are asked for their identity only: a store and its copy lead",
        (
            Change(
                RULES,
                "claimed_by_another(storage, store) or _of_another_grant(storage, store)",
                "claimed_by_another(storage, store)",
            ),
        ),
        (
            *on(CLAIMS + "test_of_two_copies_of_a_store_with_grants_at_once_one_goes_on", "local", "s3"),
            *on(CLAIMS + "test_of_two_copies_of_a_store_who_has_the_lower_epoch_does_not_go_on", "local", "s3"),
            TABLE + "test_whoever_marks_it_at_the_same_time_is_seen",
        ),
    ),
    Mutant(
        "a-refused-leader-s-mark-stays",
        "whoever is refused right after its mark leaves it there, and the rightful leader is refused for it",
        (Change(OWNER, "                self._withdraw(mark, found)\n", ""),),
        (
            *on(CLAIMS + "test_of_two_copies_of_a_store_with_grants_at_once_one_goes_on", "local", "s3"),
            *on(CLAIMS + "test_where_nothing_is_put_if_absent_who_finds_another_mark_removes_its_own", "local", "s3"),
            NEXT + "test_a_leader_that_is_overtaken_before_its_mark_leaves_none",
        ),
    ),
    Mutant(
        "a-refused-leader-s-claim-stays",
        "whoever is overtaken right after its claim leaves it there, and the next life is refused for it",
        (Change(OWNER, "                self._marks.disclaim()\n", "                pass\n"),),
        on(
            NEXT + "test_a_leader_that_is_overtaken_before_its_mark_leaves_none",
            *(f"{store}-the life ends" for store in ALL),
        ),
    ),
    Mutant(
        "overtaken-and-marked",
        "nobody asks the store once more after the mark: it is that of a term that is over",
        (Change(OWNER, "        if not holds_office(term, records):\n", "        if False:\n"),),
        on(
            NEXT + "test_a_leader_that_is_overtaken_before_its_mark_leaves_none",
            *(f"{store}-a leader goes on" for store in ALL),
        ),
    ),
    Mutant(
        "another-store-is-believed",
        "a member takes office in a store that names another life than it has seen",
        (Change(IDENTITY, "if before.identity not in (None, now.identity, *now.former):", "if False:"),),
        (
            *on(ELECTS + "test_a_member_takes_no_office_in_an_older_copy_or_in_another_store", *ALL),
            "tests/unit/coordination/test_identity.py::test_a_store_that_forgot_is_refused",
        ),
    ),
    Mutant(
        "the-life-before-is-a-stranger-s",
        "a standby that outlives what is forgotten ends as if the store had been replaced",
        (Change(IDENTITY, "(None, now.identity, *now.former)", "(None, now.identity)"),),
        (
            *on(ELECTS + "test_a_standby_that_outlives_what_is_forgotten_stands_by_in_the_next_life", *ALL),
            LATER + "test_a_standby_that_outlives_what_is_forgotten_stands_by_in_the_next_life",
        ),
    ),
    Mutant(
        "run-directories-of-the-life-before",
        "what a leader of the life before left when it woke up is held against the next life",
        (Change(OWNER, "max(before.begins, 0 if newest", "max(0, 0 if newest"),),
        (
            *on(NEXT + "test_what_a_woken_leader_leaves_when_all_is_cleaned_up_is_in_nobody_s_way", *ALL),
            LATER + "test_what_a_woken_leader_leaves_when_all_is_cleaned_up_is_in_nobody_s_way",
        ),
    ),
    Mutant(
        "a-life-without-a-beginning",
        "a life that begins after another one was forgotten does not say with which epoch",
        (Change(OWNER, "name, epoch = new_uid(), term.epoch + 1", "name, epoch = new_uid(), 0"),),
        on(NEXT + "test_what_a_woken_leader_leaves_when_all_is_cleaned_up_is_in_nobody_s_way", *ALL),
    ),
    Mutant(
        "clean-and-refused",
        "what a leader left when it woke up is held against a pipeline that has ended and is cleaned up",
        (Change(RULES, "if not (store.clean or ", "if not ("),),
        (
            *on(NEXT + "test_what_a_woken_leader_leaves_when_all_is_cleaned_up_is_in_nobody_s_way", *ALL),
            TABLE + "test_what_is_of_one_life",
            LATER + "test_what_a_woken_leader_leaves_when_all_is_cleaned_up_is_in_nobody_s_way",
        ),
    ),
    Mutant(
        "the-last-cleanup-is-a-stranger-s",
        "the marks are looked at after the run directories only: a cleanup that removes both meanwhile seems nobody's",
        (Change(RULES, " or store.identity in storage.earlier)", ")"),),
        (
            *on(NEXT + "test_who_starts_while_the_last_cleanup_runs_takes_nobody_for_a_stranger", *ALL),
            TABLE + "test_what_is_of_one_life",
        ),
    ),
    Mutant(
        "cleans-up-what-is-nobody-s",
        "the last cleanup removes what lies in a storage without marks",
        (Change(RULES, "            if not (store.clean or ", "            if False and not (store.clean or "),),
        (
            *on(NEXT + "test_what_lies_in_a_storage_of_nobody_is_not_cleaned_up", *ALL),
            TABLE + "test_what_is_not",
        ),
    ),
    Mutant(
        "forgotten-meanwhile",
        "what was read of a life that is forgotten meanwhile is held against the next one",
        (Change(OWNER, "if before.identity in after.former:", "if False:"),),
        on(NEXT + "test_who_is_paused_while_a_life_is_forgotten_compares_with_the_next_one", *ALL),
    ),
    Mutant(
        "marks-go-before-the-rest",
        "the cleanup removes the marks while other things are left, whose then nobody knows",
        (Change("cleanup/plan.py", "        needs=(RUNS, REHEARSALS, BLOBS),", ""),),
        (
            "tests/unit/cleanup/test_plan.py::test_whose_a_storage_is_can_be_told_as_long_as_anything_else_is_there",
            "tests/unit/cleanup/test_cleaner.py::test_a_row_that_cannot_be_listed_is_left",
        ),
    ),
    Mutant(
        "forgotten-and-the-same",
        "a life that begins after another one was forgotten takes the marks of that for its own",
        (
            Change(
                "cli/results.py", "                renew_identity(opened, term, clock=_CLOCK)", "                pass"
            ),
        ),
        (LATER + "test_what_was_forgotten_begins_with_marks_of_its_own",),
    ),
    Mutant(
        "plans-of-today-for-yesterday",
        "a plan of a sweep is applied to an older copy of the storage, which may need what it removes",
        (Change("cleanup/applying.py", "    if about.owner:\n", "    if False:\n"),),
        (LATER + "test_a_plan_of_a_sweep_is_not_applied_to_a_storage_that_was_copied_back",),
    ),
)
