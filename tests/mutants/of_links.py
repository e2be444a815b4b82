"""What is weak in what the processes of a member, and the parts of a process, share: a store's client, and the link."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

SHARED = "tests/unit/backends/test_shared.py::"
LEAD = "tests/unit/in_process/test_lead.py::"

OF_LINKS: Final = (
    Mutant(
        "children-that-close",
        "a forked child closes the client of its parent",
        (Change("backends/shared.py", "if used.pid != os.getpid():", "if not used.pid:"),),
        (SHARED + "test_a_forked_child_opens_its_own_and_closes_nothing_of_its_parents",),
    ),
    Mutant(
        "children-that-share",
        "a forked child uses the client of its parent",
        (
            Change(
                "backends/shared.py", "self._lock, self._open = threading.Lock(), {}", "self._lock = threading.Lock()"
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
        (Change("backends/shared.py", "            if used.users:\n", "            if used.users < 0:\n"),),
        (SHARED + "test_the_last_user_closes_the_client_of_all",),
    ),
)
