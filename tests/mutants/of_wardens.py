"""What is weak in the end of a dead agent: its driver, and then its session."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

ENDING = "warden.py"
SHELL = "agent/warden.py"
ENDINGS = "tests/unit/test_warden.py::"
SHELLS = "tests/unit/agent/test_warden.py::"
SUITE = "tests/contract/test_conformance.py::"
AT_ONCE = "tests/contract/test_wardens.py::"

OF_WARDENS: Final = (
    Mutant(
        "session-before-the-driver",
        "the session of a dead agent ends while its driver may run",
        (Change(ENDING, "        if empty == _LOOKS:\n", "        if True:\n"),),
        (
            ENDINGS + "test_the_session_ends_after_the_last_process_of_the_driver",
            ENDINGS + "test_a_process_that_does_not_end_keeps_the_session",
        ),
    ),
    Mutant(
        "one-look-is-enough",
        "a process that another starts, and that one look misses, counts as gone",
        (Change(ENDING, "_LOOKS: Final = 2\n", "_LOOKS: Final = 1\n"),),
        (ENDINGS + "test_a_process_that_one_look_misses_is_not_overlooked",),
    ),
    Mutant(
        "a-blind-warden",
        "where no process can be seen, none is there",
        (Change(ENDING, "        if not any(one.pid == os.getpid() for one in running):\n", "        if False:\n"),),
        (ENDINGS + "test_processes_that_cannot_be_seen_keep_the_session",),
    ),
    Mutant(
        "zombie-by-its-first-thread",
        "a process whose first thread has ended counts as gone",
        (Change(ENDING, ' in "ZX" and one.threads <= 1\n', ' in "ZX"\n'),),
        on(ENDINGS + "test_what_remains_of_a_driver", "running3-left3"),
    ),
    Mutant(
        "id-of-another",
        "a process that has the id of a dead driver is taken for the driver, and killed",
        (Change(ENDING, " and one.began != driver.began for", " and False for"),),
        on(ENDINGS + "test_what_remains_of_a_driver", "running4-left4"),
    ),
    Mutant(
        "warden-that-goes-with-its-unit",
        "a signal to all processes of a unit or a terminal ends the warden",
        (Change(SHELL, "trap '' HUP INT QUIT TERM\n", ""),),
        (SHELLS + "test_no_program_starts_while_the_agent_is_stopped_or_for_the_signals_of_its_group",),
    ),
    Mutant(
        "charge-in-the-environment",
        "a variable that the environment had before takes the secret on to the next program",
        (Change(SHELL, "unset charge line\n", ""),),
        (SHELLS + "test_no_secret_is_in_an_argument_or_the_environment",),
    ),
    Mutant(
        "warden-of-an-old-charge",
        "a warden that does not read stays, and would end the session before the present driver",
        (Change(SHELL, "        if written < len(line):\n", "        if False:\n"),),
        (SHELLS + "test_a_warden_that_does_not_read_is_killed",),
    ),
    Mutant(
        "member-without-a-warden",
        "a member does not tell its warden of its session",
        (Change("agent/member.py", "if self._warden is None else", "if True else"),),
        (AT_ONCE + "test_a_member_has_a_warden_that_knows_its_driver_and_goes_with_it",),
    ),
    Mutant(
        "zookeeper-begins-another-session",
        "a connection that resumes a session which has ended begins another session",
        (Change("backends/zookeeper/connection.py", "        if resumes is not None:\n", "        if False:\n"),),
        (SUITE + "TestZooKeeper::test_another_client_ends_a_session_by_its_testament",),
    ),
    Mutant(
        "etcd-keeps-the-session",
        "the testament of a dead process ends nothing: its ttl does",
        (
            Change(
                "backends/etcd/store.py",
                "        revoke(self._rpc, int(testament, 16))\n",
                "        int(testament, 16)\n",
            ),
        ),
        (SUITE + "TestEtcd::test_the_testament_of_a_dead_process_needs_no_ttl",),
    ),
)
