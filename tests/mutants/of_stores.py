"""What is weak in one store: conditions judged loosely, answers read wrongly, sessions that come back.

The tests are those that all stores share, on real servers.
"""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

ZOOKEEPER = "backends/zookeeper/store.py"
READING = "backends/zookeeper/reading.py"
MULTI = "backends/zookeeper/multi.py"
CONNECTION = "backends/zookeeper/connection.py"
ETCD = "backends/etcd/store.py"
HISTORY = "backends/etcd/history.py"
RPC = "backends/etcd/rpc.py"

CONTRACT = "tests/contract/test_conformance.py::"
LINES = "tests/contract/test_lines.py::"
LOST = LINES + "test_a_lost_reply_is_an_unknown_outcome_and_is_settled"
SILENT = "tests/regressions/test_silent_servers.py::"
KINDS = ("create", "replace", "delete")
ZOMBIE = "tests/contract/test_zombies.py::test_the_write_of_a_woken_leader_is_refused_by_the_store"
AFTER = "tests/faults/test_fencing.py::test_on_every_store_a_write_after_the_term_is_refused"
LED = "tests/regressions/test_reads_of_a_server_that_led.py::test_a_server_that_led_answers_no_read_with_what_was"
FULL = "tests/regressions/test_full_etcd.py::"
HISTORIES = "tests/contract/test_etcd_history.py::"
RENEWED = "tests/regressions/test_reads_of_a_server_that_led.py::test_a_server_that_led_renews_no_session"
MAJORITY = "tests/contract/test_majorities.py::test_a_server_without_the_others_answers_no_"

OF_ZOOKEEPER: Final = (
    Mutant(
        "zookeeper-fence-by-existence",
        "a guard only asks whether there is a node",
        (
            Change(
                MULTI,
                "operations += [*_lives(state), Check(path, state.changes)]",
                "operations += [Check(path, -1)]",
            ),
        ),
        (*on(AFTER, "zookeeper-successor"), *on(ZOMBIE, "zookeeper")),
    ),
    Mutant(
        "zookeeper-fence-by-count",
        "the count of changes alone names a record: a successor's at the same path has the same",
        (
            Change(
                MULTI,
                "return [] if state.session is None else [Check(marker_of(state.session), 0)]",
                "return []",
            ),
        ),
        (
            CONTRACT + "TestZooKeeper::test_the_guards_of_a_dead_leader_fail_before_and_after_its_successor",
            *on(LINES + "test_a_request_that_arrives_after_the_change_of_leader_is_refused", "zookeeper"),
        ),
    ),
    Mutant(
        "zookeeper-results-ignored",
        "a check that failed is among the results of a multi, and nobody looks",
        (
            Change(
                ZOOKEEPER,
                "        return list(answer) if failed is None else failed[1]\n",
                """        if failed is not None and not isinstance(failed[1], BadVersionError):
            return failed[1]
        return self._look(lambda client: [client.exists_async(f"/{scope}")], "look") if changes else ()
""",
            ),
        ),
        (
            CONTRACT + "TestZooKeeper::test_a_write_names_the_version_that_it_replaces",
            CONTRACT + "TestZooKeeper::test_concurrent_increments_lose_none",
        ),
    ),
    Mutant(
        "zookeeper-timeout-is-failure",
        "a commit that was not answered is said to have written nothing",
        (
            Change(
                ZOOKEEPER,
                'raise unknown(error, f"commit to scope {scope!r}") from error',
                'raise unavailable(error, f"commit to scope {scope!r}") from error',
            ),
        ),
        on(LOST, *(f"zookeeper-{kind}" for kind in KINDS)),
    ),
    Mutant(
        "zookeeper-timeout-is-success",
        "a commit that was not answered is said to be done",
        (
            Change(
                ZOOKEEPER,
                'raise unknown(error, f"commit to scope {scope!r}") from error',
                "answer = 1",
            ),
        ),
        on(LOST, *(f"zookeeper-{kind}" for kind in KINDS)),
    ),
    Mutant(
        "zookeeper-sends-again",
        "a commit that was not answered is sent again below its caller",
        (Change(ZOOKEEPER, 'raise unknown(error, f"commit to scope {scope!r}") from error', "continue"),),
        on(LOST, *(f"zookeeper-{kind}" for kind in KINDS)),
    ),
    Mutant(
        "zookeeper-opens-sessions-by-itself",
        "kazoo opens another session when one has expired",
        (Change(CONNECTION, "            return STOP_CONNECTING  #", "            pass  #"),),
        (LINES + "test_a_session_that_ended_never_opens_a_line_again",),
    ),
    Mutant(
        "zookeeper-writes-in-another-session",
        "kazoo opens another session when one has expired, and what was meant for the old one is sent in it",
        (
            Change(CONNECTION, "            return STOP_CONNECTING  #", "            pass  #"),
            Change(CONNECTION, "if state == KazooState.LOST:\n            self._over.set()", "pass"),
        ),
        on(LINES + "test_nothing_is_written_under_another_session_than_it_was_meant_for", "zookeeper"),
    ),
    Mutant(
        "zookeeper-tries-who-is-silent",
        "a server that is stopped is tried in every round, while the ttl runs",
        (Change(CONNECTION, " if one[1:] not in self._passed_over] or found", "]"),),
        (SILENT + "test_a_silent_server_is_passed_over_while_the_others_elect",),
    ),
    Mutant(
        "zookeeper-never-forgets-who-was-silent",
        "a server that was silent once is passed over in the next outage as well, in which it may be the only one",
        (Change(CONNECTION, "            self._passed_over.clear()", "            pass"),),
        (SILENT + "test_who_was_silent_once_is_tried_when_a_line_has_stood_since",),
    ),
    Mutant(
        "zookeeper-absence-unchecked",
        "a record that must not be there is not looked for",
        (Change(MULTI, 'operations += [Create(path, b""), Remove(path, 0)]', "operations += []"),),
        (CONTRACT + "TestZooKeeper::test_each_guard_holds_and_fails",),
    ),
    Mutant(
        "zookeeper-keys-without-slashes",
        "two keys have one node",
        (Change(MULTI, '_SLASH: Final = ":"', '_SLASH: Final = "_"'),),
        (CONTRACT + "TestZooKeeper::test_keys_that_differ_in_one_sign_are_different_records",),
    ),
    Mutant(
        "zookeeper-stale-read",
        "a server answers a read from what it has, without asking the one that leads",
        (Change(ZOOKEEPER, "[barrier(client), client.get_async", '[client.exists_async("/"), client.get_async'),),
        (*on(MAJORITY + "read", "zookeeper"), *on(LED, "zookeeper-read")),
    ),
    Mutant(
        "zookeeper-stale-listing",
        "a server answers a listing from what it has, without asking the one that leads",
        (Change(READING, "[barrier(client), *ask_revision", '[client.exists_async("/"), *ask_revision'),),
        (*on(MAJORITY + "listing", "zookeeper"), *on(LED, "zookeeper-listed")),
    ),
    Mutant(
        "zookeeper-sync-and-read",
        "the server that leads is asked before a read, and not whether it still leads",
        (Change(ZOOKEEPER, "[barrier(client), client.get_async", '[client.sync_async("/"), client.get_async'),),
        on(LED, "zookeeper-read"),
    ),
    Mutant(
        "zookeeper-sync-and-list",
        "the server that leads is asked before a listing, and not whether it still leads",
        (Change(READING, "[barrier(client), *ask_revision", '[client.sync_async("/"), *ask_revision'),),
        on(LED, "zookeeper-listed"),
    ),
    Mutant(
        "zookeeper-renews-by-sync",
        "the server that leads is asked whether a session lives, and not whether it still leads",
        (Change("backends/zookeeper/session.py", "[barrier(client), *", '[client.sync_async("/"), *'),),
        on(RENEWED, "zookeeper"),
    ),
)

OF_ETCD: Final = (
    Mutant(
        "etcd-fence-by-existence",
        "a guard only asks whether there is a key",
        (
            Change(
                ETCD,
                "pb.Compare(key=path, result=pb.Compare.EQUAL, target=pb.Compare.MOD, mod_revision=version)",
                "pb.Compare(key=path, result=pb.Compare.GREATER, target=pb.Compare.MOD, mod_revision=0 * version)",
            ),
        ),
        (*on(AFTER, "etcd-successor"), *on(ZOMBIE, "etcd")),
    ),
    Mutant(
        "etcd-results-ignored",
        "nobody looks whether the transaction succeeded",
        (Change(ETCD, "        if not answer.succeeded:\n", "        if False:\n"),),
        (
            CONTRACT + "TestEtcd::test_a_write_names_the_version_that_it_replaces",
            CONTRACT + "TestEtcd::test_concurrent_increments_lose_none",
        ),
    ),
    Mutant(
        "etcd-timeout-is-failure",
        "a commit that was not answered is said to have written nothing",
        (
            Change(
                "backends/etcd/errors.py",
                'return OutcomeUnknown(f"etcd did not say',
                'return StoreUnavailable(f"etcd did not say',
            ),
        ),
        on(LOST, *(f"etcd-{kind}" for kind in KINDS)),
    ),
    Mutant(
        "etcd-timeout-is-success",
        "a commit that was not answered is said to be done",
        (
            Change(
                ETCD,
                'raise outcome(error, f"commit to scope {scope!r}") from error',
                'return Commit({one.key: Version("1") for one in writes if isinstance(one, Put)}, Revision(1))',
            ),
        ),
        on(LOST, *(f"etcd-{kind}" for kind in KINDS)),
    ),
    Mutant(
        "etcd-sends-again",
        "a request that was not answered is sent again below its caller",
        (
            Change(
                RPC,
                "                self.leave(endpoint)\n            raise\n",
                """                self.leave(endpoint)
                again = self.endpoint()
                return call(again)(request, timeout=limit_s, metadata=self.metadata(again))
            raise
""",
            ),
        ),
        on(LOST, *(f"etcd-{kind}" for kind in KINDS)),
    ),
    Mutant(
        "etcd-session-comes-back",
        "a lease that has ended is granted again under its old number",
        (
            Change(
                "backends/etcd/session.py",
                "            self._ended = True\n            raise SessionEnded(self.id)\n",
                """            endpoint = self._rpc.endpoint()
            request = pb.LeaseGrantRequest(TTL=int(self.ttl.total_seconds()), ID=self._lease)
            self._rpc.send(endpoint, lambda at: at.lease.LeaseGrant, request)
""",
            ),
        ),
        (
            CONTRACT + "TestEtcd::test_an_ended_session_never_comes_back",
            *on(LINES + "test_a_request_that_arrives_after_the_change_of_leader_is_refused", "etcd"),
        ),
    ),
    Mutant(
        "etcd-deletes-what-lies-below",
        "a record is deleted with all keys that begin with its name",
        (
            Change(
                ETCD,
                "pb.DeleteRangeRequest(key=path)",
                "pb.DeleteRangeRequest(key=path, range_end=end_of(path))",
            ),
        ),
        (CONTRACT + "TestEtcd::test_a_key_has_no_parent",),
    ),
    Mutant(
        "etcd-stale-read",
        "a member answers reads from what it has, without asking the others",
        (
            Change(
                ETCD,
                "    def _range(self, request: Any) -> Any:\n",
                "    def _range(self, request: Any) -> Any:\n        request.serializable = True\n",
            ),
        ),
        (*on(MAJORITY + "read", "etcd"), *on(MAJORITY + "listing", "etcd")),
    ),
    Mutant(
        "etcd-renews-by-keep-alive",
        "the server that leads is asked whether a lease lives, and not whether it still leads",
        (Change("backends/etcd/session.py", "if answer.header.raft_term != now:", "if not now:"),),
        ("tests/unit/backends/test_etcd_session.py::test_a_renewal_by_a_server_that_led_does_not_count",),
    ),
    Mutant(
        "etcd-full-is-refused",
        "a transaction that etcd answers with no space is said to have written nothing",
        (Change(ETCD, "            if is_full(error):\n", "            if False:\n"),),
        (FULL + "test_a_write_that_was_refused_by_a_full_etcd_does_not_stand",),
    ),
    Mutant(
        "etcd-compacts-what-is-young",
        "a leader does not wait until the mark is old",
        (
            Change(HISTORY, "        if self._recent in found:\n", "        if False:\n"),
            Change(HISTORY, "compare=[same, gone]", "compare=[same]"),
        ),
        (HISTORIES + "test_one_of_many_compacts_and_what_is_young_stays",),
    ),
    Mutant(
        "etcd-denied-tries-again",
        "a client that may not compact tries it at each look",
        (Change(HISTORY, "                self._denied = True\n", "                pass\n"),),
        (HISTORIES + "test_what_etcd_does_not_permit_is_said_once_and_not_tried_again",),
    ),
    Mutant(
        "etcd-standbys-compact",
        "each client looks at the history, whether it leads or not",
        (Change(HISTORY, "        self._leads = False\n", "        self._leads = True\n"),),
        (HISTORIES + "test_a_leader_compacts_and_a_standby_does_not",),
    ),
)

FOLLOWER = "backends/zookeeper/follower.py"
STREAM = "backends/etcd/follower.py"
FOLLOWED = "backends/shared/following.py"
FOLLOWS = "tests/contract/test_following.py::"
DEAF = FOLLOWS + "test_a_deaf_follower_is_found"

OF_FOLLOWERS: Final = (
    Mutant(
        "followers-believe-a-silent-line",
        "a picture that the store contradicts is kept, and so is its line",
        (Change(FOLLOWED, "        if self.until_look_s() <= 0:\n", "        if False:\n"),),
        on(DEAF, *(f"{store}-{by}" for store in ("zookeeper", "etcd", "kubernetes") for by in ("renewal", "look"))),
    ),
    Mutant(
        "followers-keep-a-deaf-line",
        "a line that is known to be deaf is kept",
        (Change(FOLLOWED, "        self._leave()\n", ""),),
        on(DEAF, "zookeeper-renewal", "etcd-renewal", "kubernetes-renewal"),
    ),
    Mutant(
        "zookeeper-renewal-compares-nothing",
        "a renewal does not look whether the picture is of this revision",
        (Change(FOLLOWER, "agrees=bool(self._marked) or revision <= self._whole.revision", "agrees=revision >= 0"),),
        on(DEAF, "zookeeper-renewal"),
    ),
    Mutant(
        "etcd-renewal-compares-nothing",
        "a renewal does not look whether the picture has the same keys",
        (Change(STREAM, "        self._compared(agrees=agrees)\n", "        self._compared(agrees=agrees or True)\n"),),
        on(DEAF, "etcd-renewal"),
    ),
    Mutant(
        "zookeeper-watches-survive-their-line",
        "after a line broke, nothing is watched any more",
        (
            Change(
                FOLLOWER,
                "if self._at != (connection, connection.line):\n                self._begin(connection)\n",
                "if self._at is None or self._at[0] is not connection:\n                self._begin(connection)\n",
            ),
        ),
        on(FOLLOWS + "test_a_follower_outlives_its_line", "zookeeper"),
    ),
    Mutant(
        "zookeeper-takes-what-is-older",
        "nodes that are read from a server that is behind replace a listing of another server",
        (Change(FOLLOWER, "if revision < read:", "if revision < 0:"),),
        ("tests/unit/backends/test_zookeeper_follower.py::test_what_is_older_than_the_picture_is_not_taken",),
    ),
    Mutant(
        "zookeeper-follows-by-a-second-line",
        "a client with a session follows over another connection, which an idle client would not have",
        (Change(ZOOKEEPER, "                if not session.connection.over:\n", "                if False:\n"),),
        (FOLLOWS + "test_a_client_that_only_follows_keeps_the_line_of_its_session",),
    ),
    Mutant(
        "etcd-streams-begin-now",
        "after a stream broke, the changes meanwhile are missed",
        (Change(STREAM, "start_revision=after + 1)", "start_revision=after * 0)"),),
        on(FOLLOWS + "test_a_follower_outlives_its_line", "etcd"),
    ),
    Mutant(
        "followers-forget-their-own-commits",
        "a glance is older than a commit of the same client",
        (Change(FOLLOWED, "            return self._whole.revision < floor\n", "            return False\n"),),
        ("tests/unit/backends/test_following.py::test_a_glance_is_never_older_than_what_its_client_has_seen",),
    ),
)

OF_STORES: Final = (*OF_ZOOKEEPER, *OF_ETCD, *OF_FOLLOWERS)
