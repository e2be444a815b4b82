"""A batch that goes to executors, as PySpark sends it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace

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
    assert repr(copy) == repr(batch)
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


def test_a_batch_is_the_number_that_a_function_of_plain_spark_expects() -> None:
    batch = Batch(scope="flights", query="hourly", query_id="q-1", id=7, epoch=3)
    assert (batch % 2, batch == 7, batch + 1, int(batch), range(9)[batch]) == (1, True, 8, 7, 7)
    assert (str(batch), f"{batch}", f"{batch:05d}", f"{batch} of {batch:d}") == ("7", "7", "00007", "7 of 7")
    assert (json.dumps({"batch": batch}), {7: "seven"}[batch]) == ('{"batch": 7}', "seven")
    assert "hourly" in repr(batch)
    copied = sent(batch)
    assert (type(copied), copied, copied.idempotency_key) == (Batch, 7, "q-1/7")
    assert replace(batch, short=True).short
