"""What a declaration refuses, in one line that names the thing, its value and the fix."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import UsageError
from tenure.pipelines.pipeline import Job, Params, pipeline


def streaming(yes: bool = True) -> Any:
    """As much of a DataFrame as a declaration looks at."""
    return SimpleNamespace(isStreaming=yes)


class AppendOnly:
    """A sink with a word of its own."""

    def check(self, *, output_mode: str) -> None:
        if output_mode != "append":
            raise UsageError(f"this sink cannot {output_mode}", fix="append")


def job(**params: str) -> Job:
    return Job(cast(Any, None), params)


def declare(job: Job, name: str = "copy", rows: Any = None, sink: Any = None, **more: Any) -> None:
    job.stream(name, streaming() if rows is None else rows, sink=cast(Any, sink or AppendOnly()), **more)


def test_streams_keep_their_order() -> None:
    two = job()
    declare(two, "b")
    declare(two, "a")
    assert [stream.name for stream in two.streams] == ["b", "a"]


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-a", "ä", "a.b", "x" * 65, "a\n"])
def test_a_name_that_cannot_be_a_key_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not a name") as refused:
        declare(job(), name)
    assert repr(name) in str(refused.value)


def test_a_second_stream_of_one_name_is_refused() -> None:
    one = job()
    declare(one)
    with pytest.raises(UsageError, match="'copy' is declared twice; give each stream a name of its own"):
        declare(one)
    assert len(one.streams) == 1


def test_what_may_differ_is_allowed_by_name_for_one_stream() -> None:
    two = job()
    declare(two, "a")
    declare(two, "b")
    two.may_differ("b", "rand")
    two.may_differ("b", "tables")
    assert [stream.may_differ for stream in two.streams] == [frozenset(), frozenset({"rand", "tables"})]
    with pytest.raises(UsageError, match=r"stream 'c' is not declared; call job\.stream\(\.\.\.\) before"):
        two.may_differ("c", "rand")


def test_rows_that_do_not_stream_are_refused() -> None:
    with pytest.raises(UsageError, match=r"of stream 'copy' are not streaming; start from spark\.readStream"):
        declare(job(), rows=streaming(False))


def test_an_unknown_output_mode_is_refused() -> None:
    with pytest.raises(UsageError, match=r"output mode 'Append' of stream 'copy' is unknown; use one of .*append"):
        declare(job(), output_mode="Append")


def test_something_that_is_no_sink_is_refused() -> None:
    with pytest.raises(UsageError, match=r"sink 'delta' of stream 'copy' is not a sink; use one of tenure\.sinks"):
        declare(job(), sink="delta")


def test_the_sink_has_a_word() -> None:
    with pytest.raises(UsageError, match="cannot complete"):
        declare(job(), output_mode="complete")


@pytest.mark.parametrize(
    "trigger", ["real-time", "Real Time 5 minutes", "realTime", "continuous", " Continuous 1 second", "CONTINUOUS"]
)
def test_a_trigger_that_plans_after_the_fact_is_refused(trigger: str) -> None:
    refused_job = job()
    with pytest.raises(UsageError, match=r"offsets late.*; use an interval such as '1 second'"):
        declare(refused_job, trigger=trigger)
    assert refused_job.streams == ()


@pytest.mark.parametrize("trigger", [None, "1 second", "available now", "Available-Now"])
def test_other_triggers_are_taken(trigger: str | None) -> None:
    taken = job()
    declare(taken, trigger=trigger)
    assert taken.streams[0].trigger == trigger


@given(st.dictionaries(st.text(), st.text()), st.text())
def test_parameters_are_those_that_were_given(given_: dict[str, str], asked: str) -> None:
    params = Params(given_)
    assert dict(params) == given_
    assert (asked in params) == (asked in given_)
    assert params.get(asked, "else") == given_.get(asked, "else")
    if asked not in given_:
        with pytest.raises(UsageError) as refused:
            params[asked]
        assert repr(asked) in str(refused.value)
        assert refused.value.fix == f"give --param {asked}=..."


def test_the_function_names_the_pipeline() -> None:
    @pipeline
    def hourly(job: Job) -> None:
        declare(job)

    assert hourly.name == "hourly"


def test_a_name_of_its_own() -> None:
    @pipeline(name="flights-by-hour")
    def declared(job: Job) -> None:
        declare(job)

    assert declared.name == "flights-by-hour"


@pytest.mark.parametrize("name", ["a b", "", None, 7])
def test_a_name_that_is_none(name: Any) -> None:
    with pytest.raises(UsageError, match=rf"{name!r} is not"):
        pipeline(name=name)


def test_a_name_given_as_the_function() -> None:
    with pytest.raises(UsageError, match=r"'hourly' is not a function; write @tenure.pipeline\(name="):
        pipeline("hourly")  # type: ignore[call-overload]  # that it is refused is the test
