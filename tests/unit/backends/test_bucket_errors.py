"""What becomes of a request to an object store that failed, and of a service that ignores conditions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from tenure.backends.buckets.bucket import Bucket, NotAsSeen, SeenJson
from tenure.backends.buckets.service import BucketPlace, Cause, RequestFailed, Service
from tenure.errors import AccessDenied, OutcomeUnknown, StoreError, StoreUnavailable, UsageError


class Scripted:
    """A service whose next requests fail, or that keeps no conditions."""

    def __init__(self) -> None:
        self.fails: RequestFailed | None = None
        self.honours_create = self.honours_replace = True
        self.objects: dict[str, tuple[bytes, str]] = {}
        self._tags = 0

    def get(self, key: str, *, unless: str | None) -> tuple[bytes, str]:
        self._fail()
        if key not in self.objects:
            raise RequestFailed("no such object", status=404)
        if self.objects[key][1] == unless:
            raise RequestFailed("not modified", status=304)
        return self.objects[key]

    def put(self, key: str, content: bytes, *, replaces: str | None) -> str:
        self._fail()
        there = self.objects[key][1] if key in self.objects else None
        if there != replaces and (self.honours_create if replaces is None else self.honours_replace):
            raise RequestFailed("not as seen", status=412)
        self._tags += 1
        self.objects[key] = (content, str(self._tags))
        return str(self._tags)

    def delete(self, key: str) -> None:
        self._fail()
        if self.objects.pop(key, None) is None:
            raise RequestFailed("no such object", status=404)

    def ages(self, prefix: str) -> Iterable[tuple[str, timedelta]]:
        self._fail()
        return [(key, timedelta(seconds=1)) for key in self.objects if key.startswith(prefix)]

    def close(self) -> None: ...

    def _fail(self) -> None:
        if self.fails is not None:
            raise self.fails


PLACE = BucketPlace(
    Service(
        scheme="cloud",
        name="Cloud",
        connect=lambda place, request_s: Scripted(),
        conditions=("if-new", "if-same"),
        rights="give the rights",
        credentials="give the credentials",
        bucket="pail",
    ),
    "b",
    "p",
)


@pytest.fixture
def service() -> Scripted:
    return Scripted()


@pytest.fixture
def bucket(service: Scripted) -> Bucket:
    return Bucket(replace(PLACE, service=replace(PLACE.service, connect=lambda place, request_s: service)))


NO_BUCKET = "make the pail, or name another"


@pytest.mark.parametrize(
    ("failed", "error", "says"),
    [
        (RequestFailed("no answer"), OutcomeUnknown, "store cloud://b/p did not say whether it did commit: no answer"),
        (RequestFailed("late", status=408), OutcomeUnknown, "did not say"),
        (RequestFailed("broken", status=500), OutcomeUnknown, "did not say"),
        (RequestFailed("away", status=503), OutcomeUnknown, "did not say"),
        (RequestFailed("slow down", status=503, cause=Cause.PUT_OFF), StoreUnavailable, "cannot commit: slow down"),
        (RequestFailed("no token", cause=Cause.PUT_OFF), StoreUnavailable, "cannot commit: no token"),
        (RequestFailed("too many", status=429), StoreUnavailable, "cannot commit: too many"),
        (RequestFailed("bad", status=400), StoreUnavailable, "cannot commit: bad"),
        (RequestFailed("who", status=401), AccessDenied, "does not permit to commit: who; give the rights"),
        (RequestFailed("no", status=403), AccessDenied, "does not permit to commit: no; give the rights"),
        (RequestFailed("none", cause=Cause.NO_CREDENTIALS), AccessDenied, "cannot commit: none; give the credentials"),
        (RequestFailed("gone", status=404, cause=Cause.NO_BUCKET), StoreUnavailable, NO_BUCKET),
        (RequestFailed("going", status=409, cause=Cause.NO_BUCKET), StoreUnavailable, NO_BUCKET),
    ],
)
def test_a_write_that_failed_says_what_is_known(
    service: Scripted, bucket: Bucket, failed: RequestFailed, error: type[StoreError], says: str
) -> None:
    service.fails = failed
    for write in (
        lambda: bucket.put("x", {}, "commit", replaces=SeenJson({}, "1")),
        lambda: bucket.put("x", {}, "commit", replaces=None),
        lambda: bucket.delete("x", "commit"),
    ):
        with pytest.raises(error, match=says) as raised:
            write()
        assert type(raised.value) is error


@pytest.mark.parametrize("status", [404, 409, 412])
def test_a_write_in_the_place_of_another_state_is_not_as_seen(service: Scripted, bucket: Bucket, status: int) -> None:
    service.fails = RequestFailed("other", status=status)
    with pytest.raises(NotAsSeen):
        bucket.put("x", {}, "commit", replaces=SeenJson({}, "1"))


def test_an_object_that_cannot_be_made_since_something_is_not_there_has_no_bucket(
    service: Scripted, bucket: Bucket
) -> None:
    service.fails = RequestFailed("not found", status=404)
    with pytest.raises(StoreUnavailable, match=NO_BUCKET):
        bucket.put("x", {}, "commit", replaces=None)
    with pytest.raises(StoreUnavailable, match=NO_BUCKET):
        bucket.ages("sessions", "list")


def test_a_read_that_failed_is_no_object_that_is_not_there(service: Scripted, bucket: Bucket) -> None:
    seen = bucket.put("x", {"a": 1}, "commit", replaces=None)
    assert bucket.get("x", "look", known=seen) is seen
    assert bucket.get("y", "look") is None
    bucket.delete("y", "remove")
    for failed in (
        RequestFailed("away"),
        RequestFailed("away", status=503),
        RequestFailed("gone", status=404, cause=Cause.NO_BUCKET),
    ):
        service.fails = failed
        with pytest.raises(StoreUnavailable):
            bucket.get("x", "look", known=seen)


@pytest.mark.parametrize(("ignored", "named"), [("honours_create", "if-new"), ("honours_replace", "if-same")])
def test_a_service_that_ignores_a_condition_is_refused(
    service: Scripted, bucket: Bucket, ignored: str, named: str
) -> None:
    setattr(service, ignored, False)
    with pytest.raises(UsageError, match=f"ignores {named} in a PUT, so two members could lead; use a server of Cloud"):
        bucket.check_conditions()
    assert not service.objects  # the probe is removed
    setattr(service, ignored, True)
    bucket.check_conditions()
    service.fails = RequestFailed("away")
    bucket.check_conditions()  # it is proved once
