"""What is weak in the store on Kubernetes: compare-and-swaps that compare nothing, deaths that are judged too early,
sessions that come back."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

STORE = "backends/kubernetes/store.py"
COMMITS = "backends/shared/scope_objects.py"
API = "backends/kubernetes/api.py"
SILENCE = "backends/shared/sightings.py"
LEASES = "backends/kubernetes/leases.py"
SESSION = "backends/kubernetes/session.py"
OBSERVER = "backends/kubernetes/observer.py"
SIGHTINGS = "backends/shared/sightings.py"
FOLLOWER = "backends/kubernetes/follower.py"
FOLLOWED = "backends/kubernetes/followed.py"

REAL = "tests/contract/test_kubernetes.py::"
HANDS = "tests/contract/test_kubernetes_hands.py::"
OUTAGES = "tests/contract/test_kubernetes_outages.py::"
RIGHTS = "tests/contract/test_kubernetes_rights.py::"
SILENT = "tests/unit/backends/test_kubernetes_silence.py::"
DEAD = "tests/regressions/test_sessions_of_the_dead.py::"
OBJECTS = "tests/unit/backends/test_kubernetes_objects.py::"
FOLLOWS = "tests/unit/backends/test_kubernetes_follower.py::"

OF_KUBERNETES: Final = (
    Mutant(
        "kubernetes-replace-whatever-is-there",
        "a replace names no resourceVersion, so the server compares nothing",
        (
            Change(
                STORE,
                'seen.found["metadata"].items() if name != "managedFields"}',
                'seen.found["metadata"].items() if name not in ("managedFields", "resourceVersion")}',
            ),
        ),
        (REAL + "test_a_commit_that_others_overtake_is_evaluated_again",),
    ),
    Mutant(
        "kubernetes-refuses-by-memory",
        "a commit is refused by a state that the client remembers",
        (Change(COMMITS, "if (failing is not None or joins) and not fresh:", "if joins and not fresh:"),),
        (REAL + "test_a_refusal_is_judged_on_the_state_of_now",),
    ),
    Mutant(
        "kubernetes-sends-again",
        "the official client sends a replace again whose answer was lost",
        (Change(API, "        settings.retries = False\n", ""),),
        (REAL + "test_a_replace_whose_answer_is_lost_is_settled",),
    ),
    Mutant(
        "kubernetes-ends-who-renews",
        "an observer ends the Lease that is there, and not the Lease that it saw",
        (
            Change(
                LEASES,
                'return _with(lease, spec={**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1})',
                'found = {k: v for k, v in lease["metadata"].items() if k != "resourceVersion"}\n'
                '    return {**lease, "metadata": found, "spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}',
            ),
        ),
        (REAL + "test_an_owner_that_renews_while_it_is_ended_wins",),
    ),
    Mutant(
        "kubernetes-no-write-at-the-end",
        "the removal of a session writes only where the session has records",
        (Change(STORE, "not (in_any_case or session in seen.state.sessions)", "session not in seen.state.sessions"),),
        (REAL + "test_a_session_that_an_observer_ends_before_its_first_record_writes_none",),
    ),
    Mutant(
        "kubernetes-joins-unproved",
        "a session brings its first record into a scope without proof that it lives",
        (Change(COMMITS, "        own_session.joins(scope)\n", ""),),
        (REAL + "test_a_session_that_an_observer_ends_before_its_first_record_writes_none",),
    ),
    Mutant(
        "kubernetes-comes-back",
        "an owner whose Lease was ended goes on with it",
        (Change(SESSION, "            if leases.has_ended(self._lease):\n", "            if False:\n"),),
        (HANDS + "test_a_lease_that_was_ended_is_never_renewed",),
    ),
    Mutant(
        "kubernetes-counts-its-own-pause",
        "the time in which the observer did not look counts as silence of the session",
        (Change(SILENCE, "min(asked_s - self.seen_s, _MOST * self.ttl_s)", "asked_s - self.seen_s"),),
        (SILENT + "test_a_pause_of_the_observer_does_not_count",),
    ),
    Mutant(
        "kubernetes-counts-outages",
        "the time in which the observer got no answer counts as silence of the session",
        (
            Change(
                SILENCE,
                "        self.seen_s = at_s\n        self.next_look_s = at_s + min",
                "        self.next_look_s = at_s + min",
            ),
        ),
        (SILENT + "test_time_without_an_answer_does_not_count",),
    ),
    Mutant(
        "kubernetes-takes-others-leases",
        "a Lease with our label counts as ours, also under the name of another store",
        (Change(LEASES, "SessionId(session) if name == store and session else None", "SessionId(session or name)"),),
        (OBJECTS + "test_a_lease_of_another_store_is_not_ours",),
    ),
    Mutant(
        "kubernetes-forgets-with-the-client",
        "each client of the store begins to observe anew",
        (Change(SIGHTINGS, "return _of_places.setdefault(place, Sightings())", "return Sightings()"),),
        (DEAD + "test_who_waits_shorter_than_the_ttl_again_and_again_sees_a_death",),
    ),
    Mutant(
        "kubernetes-judges-by-the-label",
        "a Lease that a scope names is not judged once its label is gone",
        (
            Change(
                OBSERVER, "                self.sees(lease)\n                self._woken()\n", "                pass\n"
            ),
        ),
        (DEAD + "test_a_lease_is_judged_by_the_name_that_a_scope_has",),
    ),
    Mutant(
        "kubernetes-amends-a-record-made-anew",
        "an amended value counts also for a later record of the same key",
        (
            Change(
                LEASES,
                'isinstance(found, dict) and found.get("version") == record.version:',
                "isinstance(found, dict):",
            ),
        ),
        (OBJECTS + "test_an_amended_value_is_read_as_it_was_written",),
    ),
    Mutant(
        "kubernetes-deaf-after-410",
        "a watch that was told that its place is gone asks for the same place again",
        (Change(FOLLOWER, '                    self._from = ""\n', ""),),
        (OUTAGES + "test_a_watch_goes_on_after_what_it_knew_is_compacted",),
    ),
    Mutant(
        "kubernetes-keeps-the-old-token",
        "a token that is refused is not read again",
        (
            Change(
                API,
                "            if self._client is used:\n                self._client = None",
                "            if self._client is used:\n                pass",
            ),
        ),
        (OUTAGES + "test_a_rotated_token_is_read_again",),
    ),
    Mutant(
        "kubernetes-connects-for-longer-than-a-ttl",
        "a renewal whose connection hangs has the whole time to connect of the store URL",
        (Change(API, "timeouts = (min(self._connect_s, request.silent_s), ", "timeouts = (self._connect_s, "),),
        (
            "tests/regressions/test_hung_connections_of_renewals.py"
            "::test_a_request_that_may_take_a_moment_connects_for_no_longer",
        ),
    ),
    Mutant(
        "kubernetes-untried-rights",
        "a session opens without the rights that only the death of a member needs",
        (Change(STORE, "            self._observer.check_rights(session)\n", "            pass\n"),),
        (RIGHTS + "test_a_member_without_a_right_is_told_which[get-leases]",),
    ),
    Mutant(
        "kubernetes-blind",
        "a scope is not followed, and nobody says so",
        (Change(FOLLOWED, "        self.begin().check()\n", "        self.begin()\n"),),
        (RIGHTS + "test_a_glance_at_a_scope_that_cannot_be_followed_is_refused[watch]",),
    ),
    Mutant(
        "kubernetes-renewal-compares-nothing",
        "a renewal does not look whether the picture is of this resourceVersion",
        (
            Change(
                FOLLOWED,
                "agrees = asked_at <= at <= self._newest if at is not None else not there",
                "agrees = True or there",
            ),
        ),
        on("tests/contract/test_following.py::test_a_deaf_follower_is_found", "kubernetes-renewal"),
    ),
    Mutant(
        "kubernetes-waits-for-the-server-to-end-a-line",
        "a line on which nothing comes is left only when its end comes",
        (Change(FOLLOWER, "silent_s=WATCH_S + _LATE_S)", "silent_s=3600.0)"),),
        ("tests/contract/test_following.py::test_a_line_whose_end_does_not_arrive_is_left",),
    ),
    Mutant(
        "kubernetes-deaf-lines-begin-where-they-ended",
        "after a line that was deaf, the objects are not listed",
        (
            Change(
                FOLLOWER,
                '                self._wake.clear()\n                self._from = ""\n',
                "                self._wake.clear()\n",
            ),
        ),
        (REAL + "test_a_client_follows_the_sessions_of_its_own_scopes",),
    ),
    Mutant(
        "kubernetes-waits-for-a-revision-of-the-life-before",
        "a ConfigMap that was made anew wakes nobody until it has as many revisions as that before",
        (
            Change(
                FOLLOWED,
                "anew = self._anew or (known is not None and known.state.origin != state.origin)",
                "anew = self._anew",
            ),
        ),
        (HANDS + "test_a_config_map_that_is_deleted_and_made_anew_is_news",),
    ),
    Mutant(
        "kubernetes-follows-everybody",
        "each renewal of each pipeline is an event for every member of every pipeline",
        (
            Change(
                LEASES,
                """    return f"{selector(store)},{SCOPE} in ({','.join(values)})"\n""",
                "    return selector(store)\n",
            ),
        ),
        (REAL + "test_a_client_follows_the_sessions_of_its_own_scopes",),
    ),
    Mutant(
        "kubernetes-old-lists-count",
        "a list by the former selector counts as the first list by the new one",
        (Change(FOLLOWER, "if not self._anew.is_set():  # else", "if True:  # else"),),
        (FOLLOWS + "test_a_list_that_began_before_the_selector_changed_is_not_the_first_try_of_the_new_selector",),
    ),
    Mutant(
        "kubernetes-pauses-before-a-new-selector",
        "a new selector is tried when the pause after a refusal is over",
        (Change(FOLLOWER, "self._clock.wait(self._wake, ", "self._clock.wait(self._stop, "),),
        (FOLLOWS + "test_a_new_selector_is_tried_at_once_also_in_the_pause_after_a_refusal",),
    ),
)
