"""What is weak in what wakes the readers of a scope that is followed, and what does not."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

FOLLOWER = "backends/zookeeper/follower.py"
STREAM = "backends/etcd/follower.py"
FOLLOWED = "backends/shared/following.py"
SESSION = "backends/zookeeper/session.py"
ELECTION = "coordination/election.py"

MADE_UP = "tests/unit/backends/test_following.py::"
OF_A_STREAM = "tests/unit/backends/test_etcd_follower.py::"
OF_A_LINE = "tests/unit/backends/test_zookeeper_marks.py::"
OF_A_SESSION = "tests/unit/backends/test_zookeeper_session.py::"
OF_A_LEADER = "tests/unit/coordination/test_attending.py::"

OF_NEWS: Final = (
    Mutant(
        "followers-compare-one-scope",
        "a renewal compares the scope that nobody reads any more, again and again, and no other",
        (Change(FOLLOWED, "return doubted_s is None and since_s", "return since_s"),),
        (MADE_UP + "test_a_picture_in_doubt_takes_no_turn_of_another_scope",),
    ),
    Mutant(
        "followers-leave-a-busy-line",
        "a line that hears is taken for deaf while the scope changes",
        (Change(FOLLOWED, "self._whole.listing().records or self._changed > heard", "self._whole.listing().records"),),
        (MADE_UP + "test_a_line_that_hears_is_kept_while_the_scope_changes",),
    ),
    Mutant(
        "followers-believe-any-news",
        "other news ends the wait for a change that is on its way",
        (
            Change(
                FOLLOWED,
                "            self._catch_up()\n\n\nclass",
                "            self._catch_up()\n            break\n\n\nclass",
            ),
        ),
        (MADE_UP + "test_other_news_does_not_end_the_grace_of_a_change_on_its_way",),
    ),
    Mutant(
        "etcd-listings-swallow-changes",
        "a listing of one thread shows a change, so its event wakes no other",
        (Change(STREAM, "                if self._revision and keys != self._keys:\n", "                if False:\n"),),
        (OF_A_STREAM + "test_a_change_that_a_listing_shows_before_the_stream_wakes_its_readers",),
    ),
    Mutant(
        "etcd-forgets-deletions",
        "a record that was deleted before the first picture is no change for a watch after an older revision",
        (Change(STREAM, "elif revision < self._first_revision:", "elif revision < 0:"),),
        (OF_A_STREAM + "test_a_watch_after_a_revision_before_the_first_picture_counts_the_scope_as_changed",),
    ),
    Mutant(
        "etcd-doubts-by-old-answers",
        "an answer that is older than the picture counts against the picture",
        (Change(STREAM, "agrees = agrees or int(found.header.revision) < self._revision", "agrees = bool(agrees)"),),
        (OF_A_STREAM + "test_an_answer_that_is_older_than_the_picture_raises_no_doubt",),
    ),
    Mutant(
        "zookeeper-marks-go-with-a-failed-listing",
        "a change whose listing failed is not read any more",
        (
            Change(
                FOLLOWER,
                "            marked, self._marked = self._marked, set()  # before",
                "            marked, self._marked = set(), set()  # before",
            ),
        ),
        (OF_A_LINE + "test_a_change_stays_marked_when_the_listing_fails_that_would_show_it",),
    ),
    Mutant(
        "zookeeper-lists-a-busy-scope",
        "a look at a scope that goes on changing lists all of it",
        (Change(FOLLOWER, "        self._publish(records, whole_until)\n", "        self._take_all()\n"),),
        (OF_A_LINE + "test_a_scope_that_goes_on_changing_is_not_listed",),
    ),
    Mutant(
        "zookeeper-dates-a-busy-scope-too-late",
        "records that lack the last changes have the revision of these changes",
        (
            Change(
                FOLLOWER,
                "whole_until, read = Revision(revision) if quiet else read, Revision(revision)",
                "whole_until = read = Revision(revision)",
            ),
        ),
        (OF_A_LINE + "test_a_scope_that_goes_on_changing_is_not_listed",),
    ),
    Mutant(
        "zookeeper-reads-over-two-lines",
        "the events between two lines are missed, and the picture counts as whole",
        (
            Change(
                FOLLOWER,
                "if self._at != (connection, connection.line):\n                self._begin(connection)  # events",
                "if False:\n                self._begin(connection)  # events",
            ),
        ),
        (OF_A_LINE + "test_events_between_two_lines_are_not_missed",),
    ),
    Mutant(
        "followers-wait-for-marks-that-are-there",
        "a glance waits for an event although the change that it misses is marked",
        (Change(FOLLOWED, "        news.set()  # a change may have arrived since the last look\n", ""),),
        (OF_A_LINE + "test_marks_that_a_look_leaves_are_read_at_once",),
    ),
    Mutant(
        "zookeeper-renewals-break-the-next-line",
        "a renewal whose line broke breaks the line that kazoo has opened meanwhile",
        (Change(SESSION, " and self.connection.line == line:", ":"),),
        (OF_A_SESSION + "test_a_renewal_breaks_the_line_on_which_it_waited_and_no_other",),
    ),
    Mutant(
        "leaders-always-rest",
        "a leader of a quiet scope is late for an order, and for the loss of its office",
        (Change(ELECTION, "early_s = looked_s + _APART_S - self._clock.monotonic_s()", "early_s = 5 * _APART_S"),),
        (OF_A_LEADER + "test_a_leader_hears_of_an_order_and_of_a_lost_office_at_once",),
    ),
    Mutant(
        "leaders-look-at-each-commit",
        "a leader looks at the scope after each of its own commits",
        (Change(ELECTION, "if changed and early_s > 0:", "if False:"),),
        (OF_A_LEADER + "test_a_leader_of_a_busy_scope_looks_ten_times_a_second",),
    ),
)
