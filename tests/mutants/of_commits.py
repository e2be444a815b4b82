"""What is weak in a commit under a term: the fence, and the settling of unknown outcomes.

Each is named after what it lacks. Those that a store could make up for, or not, are tried on several stores.
"""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

TERM = "coordination/term.py"
SETTLE = "coordination/settle.py"
HANDLES = "handles/store.py"
ANCHOR = "handles/anchor.py"
SERVERS = ("zookeeper", "etcd")
ALL = ("memory", "sqlite", *SERVERS)
ZOMBIE = "tests/contract/test_zombies.py::test_the_write_of_a_woken_leader_is_refused_by_the_store"
AFTER = "tests/faults/test_fencing.py::test_on_every_store_a_write_after_the_term_is_refused"
PAUSED = "tests/faults/test_fencing.py::test_on_every_store_a_write_that_was_paused_on_its_way_is_refused"
DOUBT = "tests/faults/test_unknown_outcomes.py::"
ORDERS = "tests/faults/test_orders.py::"
LATE = "tests/regressions/test_late_requests_after_a_removal.py::"

_SENT = """        return commit_settled(
            store, term.scope, guards=(*fence, *guards), """

OF_FENCE: Final = (
    Mutant(
        "time-to-connect-counts",
        "the time in which the store looks for a server counts against the first ttl",
        (Change("coordination/session.py", "if sent_s - began_s <= _SLOW * self._ttl_s:", "if True:"),),
        (
            "tests/unit/coordination/test_session.py::test_the_time_to_connect_does_not_count_against_the_first_ttl[8.2]",
            "tests/regressions/test_silent_first_endpoints.py::"
            "test_a_short_ttl_outlives_the_search_for_a_server_that_answers",
        ),
    ),
    Mutant(
        "no-fence",
        "a commit under a term sends no guards of the term",
        (Change(TERM, "guards=(*fence, *guards),", "guards=tuple(guards),"),),
        (*on(ZOMBIE, "sqlite", *SERVERS), *on(AFTER, *(f"{store}-successor" for store in ALL))),
    ),
    Mutant(
        "fence-is-checked-first",
        "the guards of the term are compared before the commit, not in it",
        (
            Change(
                TERM,
                _SENT,
                """        for guard in fence:
            record = store.read(term.scope, guard.key)
            if record is None or record.version != guard.version:
                raise GuardFailed(guard, scope=term.scope)
        return commit_settled(
            store, term.scope, guards=tuple(guards), """,
            ),
        ),
        on(PAUSED, *(f"{store}-successor" for store in ALL)),
    ),
    Mutant(
        "fence-by-owner",
        "whoever has the name of the holder may write, whichever term it was",
        (
            Change(
                TERM,
                "    fence = term.guards()\n",
                """    fence = term.guards()
    leader, epoch = store.read(term.scope, LEADER), store.read(term.scope, EPOCH)
    if leader is not None and epoch is not None and json.loads(leader.value)["member"] == term.holder:
        fence = (Exact(LEADER, leader.version), Exact(EPOCH, epoch.version))
""",
            ),
        ),
        (
            *on(AFTER, *(f"{store}-same_member_again" for store in ALL)),
            *on(AFTER, *(f"{store}-same_member_same_session" for store in SERVERS)),
        ),
    ),
    Mutant(
        "fence-without-epoch",
        "only the leader record is guarded",
        (
            Change(
                TERM,
                "return (Exact(LEADER, self.leader), Exact(EPOCH, self.epoch_record))",
                "return (Exact(LEADER, self.leader), Exact(LEADER, self.leader))",
            ),
        ),
        ("tests/faults/test_fencing.py::test_a_fence_by_the_leader_record_alone_is_what_the_epoch_record_backs_up",),
    ),
)

_SEND = "return store.commit(scope, guards=guards, writes=writes)"

OF_DOUBT: Final = (
    Mutant(
        "unknown-is-refused",
        "what was not answered is said to have failed",
        (
            Change(
                SETTLE, "            unknown, refusals = failed, 0\n", "            raise StoreUnavailable('late')\n"
            ),
        ),
        on(DOUBT + "test_an_add_is_applied_once", *(f"{store}-1-reply lost" for store in ALL)),
    ),
    Mutant(
        "unknown-is-done",
        "what was not answered is said to be done",
        (
            Change(
                SETTLE,
                "            unknown, refusals = failed, 0\n",
                """            return Commit(
                {
                    write.key: "1" if (record := store.read(scope, write.key)) is None else record.version
                    for write in writes
                    if isinstance(write, Put)
                },
                store.list(scope).revision,
            )
""",
            ),
        ),
        on(DOUBT + "test_an_add_is_applied_once", *(f"{store}-1-request lost" for store in ALL)),
    ),
    Mutant(
        "retry-without-guards",
        "the second request carries no guards any more",
        (Change(SETTLE, _SEND, _SEND.replace("guards=guards", "guards=guards if unknown is None else ()")),),
        on(DOUBT + "test_the_term_ends_between_the_lost_reply_and_the_retry", *ALL),
    ),
    Mutant(
        "retry-replaces-anything",
        "the second request writes over whatever is there",
        (
            Change(
                SETTLE,
                "            return store.commit(scope, guards=guards, writes=writes)\n",
                """            if unknown is not None:
                there = {write.key: store.read(scope, write.key) for write in writes}
                writes = [
                    Put(write.key, write.value, None if there[write.key] is None else there[write.key].version)
                    if isinstance(write, Put) and write.session is None
                    else write
                    for write in writes
                ]
            return store.commit(scope, guards=guards, writes=writes)
""",
            ),
        ),
        on(
            DOUBT + "test_an_add_that_meets_another_handle_of_that_name_is_refused_although_its_reply_was_lost",
            *ALL,
        ),
    ),
    Mutant(
        "refused-after-doubt-is-refused",
        "a guard that fails at the second request is taken for the answer to the first",
        (Change(SETTLE, "refused.earlier_request_may_apply = True", "refused.earlier_request_may_apply = False"),),
        on(DOUBT + "test_the_term_ends_between_the_lost_reply_and_the_retry", *ALL),
    ),
    Mutant(
        "orders-are-sent-again",
        "a request of an operator is sent again until there is an answer, also when it was obeyed meanwhile",
        (Change(SETTLE, "            on=StoreUnavailable,\n", "            on=(StoreUnavailable, OutcomeUnknown),\n"),),
        (
            *on(ORDERS + "test_a_restart_that_was_obeyed_meanwhile_is_not_asked_again", *ALL),
            *on(ORDERS + "test_a_pause_that_was_ended_meanwhile_is_not_made_again", *ALL),
        ),
    ),
    Mutant(
        "orders-to-any-scope",
        "a request to a scope that nobody ever ran is made, so a typing error pauses nothing and says that it did",
        (Change("operate/scopes.py", "    if is_removed(records):\n", "    if False:\n"),),
        (
            "tests/unit/operate/test_known_scopes.py::test_a_request_to_a_scope_that_is_not_there[pause]",
            "tests/cli/test_verbs.py::test_a_scope_that_never_was_in_the_store[pause]",
        ),
    ),
    Mutant(
        "no-read-back",
        "nobody looks whether the first request did it when the second is refused",
        (
            Change(
                SETTLE,
                "else _read_back(store, scope, writes, go_on=go_on, clock=clock)",
                "else None",
            ),
        ),
        (
            *on(
                "tests/contract/test_lines.py::test_settling_finds_what_a_lost_reply_said",
                *(f"{store}-{kind}" for store in SERVERS for kind in ("create", "replace")),
            ),
            *on(DOUBT + "test_a_lock_with_a_lost_reply_is_one_lock", *ALL),
        ),
    ),
    Mutant(
        "no-read-back-of-handles",
        "a handle that the first request added is refused because the anchor moved",
        (
            Change(
                ANCHOR,
                "                    applied = self._applied(writes)\n",
                "                    applied = None\n",
            ),
        ),
        (
            LATE + "test_a_plan_of_which_the_reply_was_lost_is_planned",
            LATE + "test_an_add_of_which_the_reply_was_lost_while_another_thread_removed",
        ),
    ),
    Mutant(
        "handles-without-uid",
        "two writes of the same content cannot be told apart",
        (
            Change(
                HANDLES,
                "value = encode_handle(uid=new_uid(), epoch=",
                "value = encode_handle(uid='0', epoch=",
            ),
        ),
        on(
            DOUBT + "test_a_payload_within_the_record_is_told_from_the_same_one_of_another_write",
            *(f"{store}-reply lost" for store in ALL),
        ),
    ),
)
