"""A batch that goes to executors, as PySpark sends it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from pyspark import cloudpickle

from tenure.errors import UsageError
from tenure.sinks.sink import Batch


def asking(ask: Callable[[], None]) -> Batch:
    """A batch that asks by something that cannot be sent anywhere."""
    lock = threading.Lock()

    def check() -> None:
        with lock:
            ask()

    return Batch(scope="flights", query="hourly", query_id="q-1", id=7, epoch=3, check_term=check)


def sent(batch: Batch) -> Batch:
    """What an executor gets of a function that has the batch in its closure."""
    function = cloudpickle.loads(cloudpickle.dumps(lambda: batch))  # type: ignore[no-untyped-call] # untyped in pyspark
    found = function()
    assert isinstance(found, Batch)
    return found


def test_executors_get_all_that_a_batch_says() -> None:
    batch = asking(lambda: None)
    copy = sent(sent(batch))
    assert copy == batch
    assert (copy.epoch, copy.idempotency_key, copy.scope, copy.query) == (3, "q-1/7", "flights", "hourly")


def test_a_copy_cannot_ask_the_store_and_says_so() -> None:
    asked: list[str] = []
    batch = asking(lambda: asked.append("store"))
    with pytest.raises(
        UsageError,
        match=r"batch.check\(\) was called on an executor.s copy .* only the driver can ask the store; call it in",
    ):
        sent(batch).check()
    assert asked == []
    batch.check()
    assert asked == ["store"]
