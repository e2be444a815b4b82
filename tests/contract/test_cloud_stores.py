"""The store in a bucket of Google Cloud Storage and of Azure Blob Storage, on their emulators: every case of the
contract, random histories, races of two clients, and lost answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings

from tenure.backends.buckets.bucket import Bucket, NotAsSeen, SeenJson
from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.records import Key, Put, Scope
from tenure.errors import (
    AccessDenied,
    BlobExists,
    BlobNotFound,
    OutcomeUnknown,
    StoreUnavailable,
    TenureError,
    UsageError,
)
from tenure.storage.reach import reach
from tenure.storage.storage import REMOVED
from tests.kit.conformance import StoreConformance, StoreRig, agreement_machine, contract_machine
from tests.kit.servers import Azurite, FakeGcs
from tests.properties import examples
from tests.s3 import DENY, HANG, LOSE, PASS, SLOW_DOWN, Gate
from tests.support.store_fixtures import AzureRig, BucketRig, GcsRig

pytestmark = pytest.mark.long

SCOPE = Scope("orders")
LEADER = Key("leader")
_SERVED = settings(max_examples=examples(8), stateful_step_count=30)
_LONG_TTL = timedelta(minutes=2)
"""In real time: a session that ended by itself in the middle of a history would be no surprise to the store."""
_servers: dict[str, Any] = {}


class TestGcs(StoreConformance):
    @pytest.fixture
    def rig(self, fake_gcs: FakeGcs) -> Iterator[StoreRig]:
        rig = GcsRig(fake_gcs)
        yield rig
        rig.close()


class TestAzure(StoreConformance):
    @pytest.fixture
    def rig(self, azurite: Azurite) -> Iterator[StoreRig]:
        rig = AzureRig(azurite)
        yield rig
        rig.close()


@pytest.fixture(autouse=True, scope="module")
def servers(fake_gcs: FakeGcs, azurite: Azurite) -> None:
    """Hypothesis makes the rigs by itself."""
    _servers.update(fake_gcs=fake_gcs, azurite=azurite)


class PatientGcsRig(GcsRig):
    ttl = _LONG_TTL


class PatientAzureRig(AzureRig):
    ttl = _LONG_TTL


def gcs_rig() -> GcsRig:
    return PatientGcsRig(_servers["fake_gcs"])


def azure_rig() -> AzureRig:
    return PatientAzureRig(_servers["azurite"])


TestGcsKeepsTheContract = contract_machine(gcs_rig).TestCase
TestGcsKeepsTheContract.settings = _SERVED

TestGcsAgreesWithMemory = agreement_machine(gcs_rig).TestCase
TestGcsAgreesWithMemory.settings = _SERVED

TestAzureKeepsTheContract = contract_machine(azure_rig).TestCase
TestAzureKeepsTheContract.settings = _SERVED

TestAzureAgreesWithMemory = agreement_machine(azure_rig).TestCase
TestAzureAgreesWithMemory.settings = _SERVED


def rig_of(kind: str, *, url: str | None = None) -> BucketRig:
    if kind == "fake_gcs":
        return GcsRig(_servers[kind], url=url)
    return AzureRig(_servers[kind], url=url)


@pytest.fixture(params=["fake_gcs", "azurite"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def cloud(kind: str) -> Iterator[BucketRig]:
    made = rig_of(kind)
    yield made
    made.close()


@pytest.fixture
def cloud_gate(kind: str) -> Iterator[Gate]:
    with Gate(_servers[kind]) as made:
        yield made


@pytest.fixture
def gated_cloud(kind: str, cloud_gate: Gate) -> Iterator[BucketRig]:
    """Its clients go through the gate."""
    made = rig_of(kind, url=cloud_gate.url)
    made.place = replace(made.place, request_timeout=timedelta(seconds=2))
    yield made
    made.close()


def race(cloud: BucketRig, name: str, *, replaces: SeenJson | None) -> list[object]:
    """What becomes of writes by clients that begin at once."""
    clients = [Bucket(cloud.place) for _ in range(4)]
    for client in clients:
        client.get(name, "open a line")
    begin = threading.Barrier(len(clients))
    outcomes: list[object] = []

    def write(number: int) -> None:
        begin.wait()
        try:
            outcomes.append(clients[number].put(name, {"by": number}, "race", replaces=replaces))
        except (NotAsSeen, TenureError) as refused:
            outcomes.append(refused)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        client.close()
    return outcomes


def test_of_writes_at_once_one_goes_through(cloud: BucketRig) -> None:
    """First four create an object, then four replace the same state, and so on."""
    bucket = Bucket(cloud.place)
    seen: SeenJson | None = None
    for _ in range(20):
        outcomes = race(cloud, "raced", replaces=seen)
        won = [one for one in outcomes if isinstance(one, SeenJson)]
        assert len(won) == 1
        assert sum(isinstance(one, NotAsSeen) for one in outcomes) == 3
        seen = bucket.get("raced", "look")
        assert seen == won[0]
    bucket.close()


def test_a_state_that_is_gone_is_not_replaced(cloud: BucketRig) -> None:
    bucket = Bucket(cloud.place)
    seen = bucket.put("gone", {"a": 1}, "write", replaces=None)
    assert bucket.get("gone", "look", known=seen) == seen
    bucket.delete("gone", "remove")
    bucket.delete("gone", "remove")
    assert bucket.get("gone", "look", known=seen) is None
    with pytest.raises(NotAsSeen):
        bucket.put("gone", {"a": 2}, "write", replaces=seen)
    again = bucket.put("gone", {"a": 1}, "write", replaces=None)
    assert again.tag != seen.tag
    bucket.close()


def put(store: Any, value: bytes) -> None:
    record = store.read(SCOPE, LEADER)
    store.commit(SCOPE, guards=(), writes=(Put(LEADER, value, None if record is None else record.version),))


def writes(what: str) -> Callable[[str, str], str]:
    """This becomes of the next write."""
    done: list[str] = []

    def rule(method: str, path: str) -> str:
        if method not in ("PUT", "POST") or done:
            return PASS
        done.append(path)
        return what

    return rule


def test_a_commit_whose_answer_is_lost_is_sent_once_and_settled_by_a_look(
    gated_cloud: BucketRig, cloud_gate: Gate
) -> None:
    store = gated_cloud.client()
    put(store, b"first")
    cloud_gate.seen.clear()
    cloud_gate.rule = writes(LOSE)
    put(store, b"second")
    assert [became for method, _, became in cloud_gate.seen if method in ("PUT", "POST")] == [LOSE]
    found = store.read(SCOPE, LEADER)
    assert found is not None
    assert found.value == b"second"


@pytest.mark.parametrize(
    ("what", "error", "says"),
    [
        (HANG, OutcomeUnknown, "did not say whether it did commit to scope 'orders'"),
        (SLOW_DOWN, OutcomeUnknown, "did not say whether it did commit to scope 'orders'"),
        (DENY, AccessDenied, "does not permit to commit to scope 'orders'"),
    ],
)
def test_a_write_that_fails_is_sent_once_and_says_what_is_known(
    gated_cloud: BucketRig, cloud_gate: Gate, what: str, error: type[TenureError], says: str
) -> None:
    store = gated_cloud.client()
    put(store, b"first")
    cloud_gate.seen.clear()
    cloud_gate.rule = writes(what)
    with pytest.raises(error, match=says) as raised:
        put(store, b"second")
    assert type(raised.value) is error
    assert [became for method, _, became in cloud_gate.seen if method in ("PUT", "POST")] == [what]
    put(store, b"third")


def test_a_read_that_fails_is_not_taken_for_an_object_that_is_not_there(
    gated_cloud: BucketRig, cloud_gate: Gate
) -> None:
    store = gated_cloud.client()
    put(store, b"first")
    cloud_gate.rule = lambda method, path: SLOW_DOWN
    with pytest.raises(StoreUnavailable):
        store.read(SCOPE, LEADER)


def test_a_blob_beside_the_store_is_written_once_and_removed(cloud: BucketRig) -> None:
    place = cloud.place
    storage = reach(f"{place.shown}/blobs")
    storage.write("a/b", b"first")
    with pytest.raises(BlobExists):
        storage.write("a/b", b"second")
    assert storage.read("a/b") == b"first"
    assert list(storage.remove_files(["a/b"], clock=SystemClock())) == [(REMOVED, "")]
    with pytest.raises(BlobNotFound):
        storage.read("a/b")


def test_a_container_that_is_not_there_is_named(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in azurite.environment().items():
        monkeypatch.setenv(name, value)
    store = open_store("abfss://elsewhere@tenuretests.dfs.core.windows.net/x", clock=SystemClock())
    for ask in (lambda: store.read(SCOPE, LEADER), lambda: put(store, b"x"), store.scopes):
        with pytest.raises(StoreUnavailable, match=r"container does not exist.*; make the container, or name another"):
            ask()
    store.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("gs://", "has no bucket; write gs://BUCKET/PREFIX"),
        ("gs://No_Bucket!/x", "has bucket 'No_Bucket!', which is no name of a bucket"),
        ("gs://bucket/x?region=here", "has option 'region', which gs has not"),
        ("abfss://container/x", "does not name a container and an account; write abfss://CONTAINER@ACCOUNT.dfs"),
        ("abfss://c@account.dfs.core.windows.net", "does not name a container and an account"),
        ("abfss://data@account.dfs.core.windows.net/x?tls=no", "has option 'tls', which abfss has not"),
    ],
)
def test_a_url_that_names_no_place_is_refused(url: str, says: str) -> None:
    with pytest.raises(UsageError, match=says.replace("?", r"\?")):
        open_store(url, clock=SystemClock())


def test_the_connection_string_of_another_account_is_refused(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in azurite.environment().items():
        monkeypatch.setenv(name, value)
    store = open_store("abfss://pipelines@other.dfs.core.windows.net/x", clock=SystemClock())
    with pytest.raises(UsageError, match="is in account 'other', and AZURE_STORAGE_CONNECTION_STRING is of 'tenure"):
        store.read(SCOPE, LEADER)


def test_without_credentials_the_error_says_how_to_have_some(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    store = open_store("gs://bucket/x", clock=SystemClock())
    with pytest.raises(AccessDenied, match=r"none\.json was not found\.; set GOOGLE_APPLICATION_CREDENTIALS, or run"):
        store.read(SCOPE, LEADER)
