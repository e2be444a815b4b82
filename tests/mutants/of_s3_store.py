"""Mutants of the store in a bucket, and of its clients for S3, GCS and Azure."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

BUCKET = "backends/buckets/bucket.py"
STORE = "backends/buckets/store.py"
OBSERVER = "backends/buckets/observer.py"
CLIENT = "backends/s3/client.py"
OF_GCS = "backends/gcs/client.py"
OF_AZURE = "backends/azure/client.py"
ON_EMULATORS = "tests/contract/test_cloud_stores.py::"
SHOWS = "tests/contract/test_s3_store.py::"

OF_S3_STORE: Final = (
    Mutant(
        "s3-store-tries-no-condition",
        "a server that ignores conditions is not refused, so two members lead",
        (Change(BUCKET, "            if self._honours:\n                return", "            return"),),
        on(
            SHOWS + "test_a_server_that_ignores_a_condition_is_refused_before_the_first_write",
            *(f"{first}-{case}" for first in ("commit", "session") for case in ("1-If-None-Match", "2-If-Match")),
        ),
    ),
    Mutant(
        "s3-store-replaces-any-state",
        "a write does not name the state that it replaces",
        (Change(CLIENT, 'else {"IfMatch": replaces}', "else {}"),),
        (SHOWS + "test_of_many_writers_each_commit_counts_once",),
    ),
    Mutant(
        "s3-store-leaves-a-scope-without-object",
        "the end of a session writes nothing to a scope without an object, so a commit on its way goes through",
        (
            Change(
                STORE,
                "if not (in_any_case or session in seen.state.sessions):",
                "if seen.found is None or not (in_any_case or session in seen.state.sessions):",
            ),
        ),
        (SHOWS + "test_a_commit_that_was_evaluated_before_its_session_ended_is_refused",),
    ),
    Mutant(
        "s3-store-settles-nothing",
        "a commit whose answer is lost is unknown, though a look would show it",
        (Change(STORE, "return found if found is not None and found.data == entries else None", "return None"),),
        (SHOWS + "test_a_commit_whose_answer_is_lost_is_settled_by_a_look",),
    ),
    Mutant(
        "s3-store-leaves-a-half-done-end",
        "a session that another observer has marked as ended keeps its records",
        (
            Change(
                OBSERVER,
                'if data["ended"] or self._is_dead(session, found, asked_s=asked_s):',
                "if self._is_dead(session, found, asked_s=asked_s):",
            ),
        ),
        (SHOWS + "test_the_end_that_an_observer_left_half_done_is_finished_by_the_next",),
    ),
    Mutant(
        "gcs-store-replaces-any-state",
        "a write to GCS does not name the state that it replaces",
        (
            Change(
                OF_GCS, '"ifGenerationMatch": replaces or "0"}', '**({} if replaces else {"ifGenerationMatch": "0"})}'
            ),
        ),
        (ON_EMULATORS + "test_of_writes_at_once_one_goes_through[fake_gcs]",),
    ),
    Mutant(
        "azure-store-replaces-any-state",
        "a write to Azure does not name the state that it replaces",
        (Change(OF_AZURE, '{"etag": replaces, "match_condition": MatchConditions.IfNotModified}', "{}"),),
        (ON_EMULATORS + "test_of_writes_at_once_one_goes_through[azurite]",),
    ),
    Mutant(
        "azure-store-repeats-a-write",
        "Azure's client sends a write again, and the condition of the first sending refuses it",
        (Change(OF_AZURE, "            retry_total=0,\n", ""),),
        (ON_EMULATORS + "test_a_commit_whose_answer_is_lost_is_sent_once_and_settled_by_a_look[azurite]",),
    ),
)
