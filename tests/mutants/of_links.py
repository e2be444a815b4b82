"""What is weak in what the processes of a member, and the parts of a process, share: a store's client, and the link."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

SHARED = "tests/unit/backends/test_open_stores.py::"
RECORDS = "tests/unit/link/test_records.py::"
LEAD = "tests/unit/in_process/test_lead.py::"

OF_LINKS: Final = (
    Mutant(
        "children-that-close",
        "a forked child closes the client of its parent",
        (Change("backends/registry.py", "if used.pid != os.getpid():", "if not used.pid:"),),
        (SHARED + "test_a_forked_child_opens_its_own_and_closes_nothing_of_its_parents",),
    ),
    Mutant(
        "children-that-share",
        "a forked child uses the client of its parent",
        (
            Change(
                "backends/registry.py",
                "self._lock, self._open = threading.Lock(), {}",
                "self._lock = threading.Lock()",
            ),
        ),
        (SHARED + "test_a_forked_child_opens_its_own_and_closes_nothing_of_its_parents",),
    ),
    Mutant(
        "children-that-resign",
        "a forked child that leaves the block gives up the term of its parent",
        (Change("coordination/held_term.py", "if pid == os.getpid():", "if pid:"),),
        (LEAD + "test_a_forked_child_that_leaves_the_block_gives_up_nothing",),
    ),
    Mutant(
        "children-that-end-sessions",
        "a forked child that leaves the block ends the session of its parent",
        (Change("coordination/session.py", "if self._pid != os.getpid():", "if not self._pid:"),),
        (LEAD + "test_a_forked_child_that_leaves_the_block_gives_up_nothing",),
    ),
    Mutant(
        "first-user-closes",
        "the first user of a client that leaves closes it for the others",
        (Change("backends/registry.py", "            if used.users:\n", "            if used.users < 0:\n"),),
        (SHARED + "test_the_last_user_closes_the_client_of_all",),
    ),
    Mutant(
        "records-without-room",
        "the agent sends records to a driver that takes none, until the socket is full and the agent waits",
        (
            Change(
                "link/records.py",
                "        if self._waits or self._newest is None:\n",
                "        if self._newest is None:\n",
            ),
        ),
        (
            RECORDS + "test_a_driver_that_takes_nothing_is_sent_one_part",
            "tests/agents/test_driver_process.py::test_a_stopped_driver_does_not_stop_the_agent_that_hears_of_changes",
        ),
    ),
    Mutant(
        "ends-before-last-words",
        "the words of a driver that has ended are not read",
        (Change("link/words.py", "if link in readable else", "if readable == [link] else"),),
        ("tests/regressions/test_last_words.py::test_the_words_of_a_driver_that_ends_are_told",),
    ),
    Mutant(
        "records-in-parts",
        "a driver sees a part of a picture",
        (Change("link/records.py", "None if self._parts else self._answered))", "self._answered))"),),
        (RECORDS + "test_a_large_picture_goes_in_parts_and_is_seen_when_all_have_arrived",),
    ),
    Mutant(
        "answers-from-before",
        "a question is answered with records that were on their way when it was asked",
        (Change("link/records.py", "self._answered >= number:", "self._answered >= 0:"),),
        (RECORDS + "test_an_answer_is_no_older_than_its_question",),
    ),
    Mutant(
        "standbys-that-connect",
        "the driver of a standby makes requests to the store",
        (Change("driver/stores.py", "                _refuse()\n", "                return self._next\n"),),
        ("tests/unit/driver/test_stores.py::test_it_is_opened_by_each_election_and_closed_by_each_rest",),
    ),
    Mutant(
        "elections-that-are-overtaken",
        "a driver that was elected before it stood by leads without a connection",
        (Change("driver/serving.py", "        work.elected()  # again", "        # again"),),
        ("tests/unit/driver/test_serving.py::test_an_election_that_is_read_before_the_standing_by_is_not_lost",),
    ),
)
