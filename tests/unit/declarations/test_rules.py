"""Which pipeline files may go on with what a scope has recorded, as a table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.checkpoints.source import FILES, Source
from tenure.declarations.declaration import Declaration, DeclaredStream, Earlier, Shape
from tenure.declarations.rules import Allowed, Judgement, changed_queries, judge

COUNT, SUM = Shape.of("count", told="count(1) by k"), Shape.of("sum", told="sum(id) by k")


def declaration(file: str = "f1", **streams: Shape | None) -> Declaration:
    return Declaration(file, "4.3.0", {name: DeclaredStream(shape) for name, shape in streams.items()})


def dropped(shape: Shape | None = None) -> DeclaredStream:
    return DeclaredStream(shape, dropped=True)


def summed(epoch: int, *, was: Shape | None = COUNT) -> DeclaredStream:
    """A sum that was something else until an epoch."""
    return DeclaredStream(SUM, earlier=Earlier(was, epoch))


def allow(new: str = "", dropped: str = "", changed: str = "") -> Allowed:
    return Allowed(frozenset(new.split()), frozenset(dropped.split()), frozenset(changed.split()))


def judged(
    recorded: Declaration | None,
    declared: Declaration,
    *checkpointed: str,
    allowed: Allowed | None = None,
    planned: int = 9,
    epoch: int = 5,
) -> Judgement:
    """`planned`: the epoch of each newest checkpoint. `epoch`: the one that is led."""
    newest = dict.fromkeys(checkpointed, planned)
    return judge(
        recorded, declared, checkpointed=checkpointed, allowed=allowed or Allowed(), newest=newest, epoch=epoch
    )


@pytest.mark.parametrize(
    ("recorded", "declared", "checkpointed", "wanted"),
    [
        # nothing is there yet, or nothing is different
        (None, declaration(a=None), (), allow()),
        (declaration(a=None), declaration(a=None), (), allow()),
        (declaration(a=COUNT), declaration(a=COUNT), ("a",), allow()),
        # a stream more: the others go on
        (declaration(a=None), declaration(a=None, b=None), ("a",), allow()),
        # a renamed one would be read once more
        (declaration(a=None), declaration(b=None), ("a",), allow(new="b", dropped="a")),
        (declaration(a=None), declaration(b=None, c=None), ("a",), allow(new="b c", dropped="a")),
        (declaration(a=None, c=None), declaration(b=None, c=None), ("a", "c"), allow(new="b", dropped="a")),
        # one that is recorded is not new, also when it has planned nothing yet
        (declaration(a=None, c=None), declaration(c=None), ("a",), allow(dropped="a")),
        # one less would be left behind
        (declaration(a=None, b=None), declaration(b=None), ("a", "b"), allow(dropped="a")),
        # one that has planned nothing is nothing to lose
        (declaration(a=None), declaration(b=None), (), allow()),
        (declaration(a=COUNT), declaration(a=SUM), (), allow()),
        # what nobody has recorded is known by its checkpoints; their state cannot be judged
        (None, declaration(b=None), ("a",), allow(new="b", dropped="a")),
        (None, declaration(a=SUM), ("a",), allow()),
        # state
        (declaration(a=COUNT), declaration(a=SUM), ("a",), allow(changed="a")),
        (declaration(a=None), declaration(a=SUM), ("a",), allow(changed="a")),
        (declaration(a=COUNT), declaration(a=None), ("a",), allow(changed="a")),
        # all at once
        (
            declaration(a=None, b=COUNT),
            declaration(c=None, b=SUM),
            ("a", "b"),
            allow(new="c", dropped="a", changed="b"),
        ),
    ],
)
def test_what_an_operator_has_to_allow(
    recorded: Declaration | None, declared: Declaration, checkpointed: tuple[str, ...], wanted: Allowed
) -> None:
    found = judged(recorded, declared, *checkpointed)
    assert found.wanted == wanted
    assert len(found.refused) == len(wanted.flags())
    assert judged(recorded, declared, *checkpointed, allowed=wanted).refused == ()


def test_each_of_the_two_flags_of_a_renamed_stream_is_needed() -> None:
    was, now = declaration(a=None), declaration(b=None)
    assert judged(was, now, "a", allowed=allow(dropped="a")).wanted == allow(new="b")
    assert judged(was, now, "a", allowed=allow(new="b")).wanted == allow(dropped="a")


def test_what_is_refused_is_named() -> None:
    found = judged(declaration(a=None, q=COUNT), declaration(b=None, q=SUM), "a", "q")
    assert found.refused == (
        "stream 'a' has checkpoints and is declared no more",
        "stream 'b' has none, and would begin at the start of its sources",
        "query 'q' was run as [count(1) by k], and would go on with that state as [sum(id) by k]",
    )
    assert found.wanted.flags() == ("--drop-stream a", "--new-stream b", "--changed-query q")


def test_another_spark_is_named_where_state_is_in_question() -> None:
    newer = replace(declaration(q=SUM), spark="4.4.0")
    assert judged(declaration(q=COUNT), newer, "q").refused[-1] == "Spark is 4.4.0, and was 4.3.0"
    assert judged(declaration(q=SUM), newer, "q").refused == ()


def test_what_the_words_leave_out_is_said_to_be_that() -> None:
    other = Shape.of("count, by another window", told=COUNT.told)
    (line,) = judged(declaration(q=COUNT), declaration(q=other), "q").refused
    assert line.endswith("and is declared otherwise in what these words leave out")


def test_what_was_allowed_is_recorded_and_needs_no_flag_any_more() -> None:
    was, now = declaration(a=COUNT, q=COUNT), declaration("f2", b=None, q=SUM)
    flags = allow(new="b", dropped="a", changed="q")
    first = judged(was, now, "a", "q", allowed=flags)
    assert first.needless == allow()
    assert first.record.streams == {"a": dropped(COUNT), "b": DeclaredStream(None), "q": summed(5)}
    for checkpointed in (("a", "q"), ("a", "b", "q")):  # also before it has planned anything
        again = judged(first.record, now, *checkpointed)
        assert (again.refused, again.record, again.news) == ((), first.record, ())
    assert judged(first.record, now, "a", "q", allowed=flags).needless == flags


def test_to_go_back_is_a_change_as_well() -> None:
    now = judged(declaration(a=None), declaration(b=None), "a", allowed=allow(new="b", dropped="a")).record
    assert judged(now, declaration(a=None), "a", "b").wanted == allow(dropped="b")


def test_a_change_that_has_run_nothing_is_undone_without_a_flag() -> None:
    count, total = declaration(q=COUNT), declaration(q=SUM)
    changed = judged(count, total, "q", allowed=allow(changed="q"), planned=4, epoch=5).record
    assert changed.streams == {"q": summed(5)}
    assert changed_queries(changed) == {"q"}
    assert judged(changed, total, "q", planned=4, epoch=6).record == changed, "it may be tried again"
    back = judged(changed, count, "q", planned=4, epoch=6)
    assert (back.refused, back.wanted) == ((), allow())
    assert back.news == ("query 'q' goes on as it was: it has run nothing since it was changed",)
    assert back.record == count
    assert changed_queries(back.record) == set()
    assert judged(back.record, total, "q", planned=4, epoch=7).wanted == allow(changed="q"), "the flag was for once"


@pytest.mark.parametrize("planned", [5, 6])
def test_a_change_that_has_run_is_undone_by_a_flag(planned: int) -> None:
    changed = Declaration("f1", "4.3.0", {"q": summed(5)})
    assert judged(changed, declaration(q=COUNT), "q", planned=planned).wanted == allow(changed="q")
    again = judged(changed, declaration(q=COUNT), "q", planned=planned, epoch=7, allowed=allow(changed="q"))
    assert again.record.streams == {"q": DeclaredStream(COUNT, earlier=Earlier(SUM, 7))}


def test_of_two_changes_that_have_run_nothing_the_state_is_the_first_ones() -> None:
    changed = Declaration("f1", "4.3.0", {"q": summed(5)})
    found = judged(changed, declaration(q=None), "q", planned=4, epoch=6, allowed=allow(changed="q"))
    assert found.record.streams == {"q": DeclaredStream(None, earlier=Earlier(COUNT, 6))}
    assert judged(found.record, declaration(q=SUM), "q", planned=4).wanted == allow(changed="q")
    assert judged(found.record, declaration(q=COUNT), "q", planned=4).refused == ()


def test_a_query_that_kept_no_state_before_it_was_changed_goes_back_as_well() -> None:
    changed = Declaration("f1", "4.3.0", {"q": summed(5, was=None)})
    assert judged(changed, declaration(q=None), "q", planned=4).refused == ()
    assert judged(changed, declaration(q=COUNT), "q", planned=4).wanted == allow(changed="q")


def test_a_dropped_stream_that_comes_back_goes_on_with_the_state_that_it_had() -> None:
    was = Declaration("f1", "4.3.0", {"a": dropped(COUNT), "b": DeclaredStream(None)})
    assert judged(was, declaration(a=SUM, b=None), "a", "b").wanted == allow(changed="a")
    back = judged(was, declaration(a=COUNT, b=None), "a", "b")
    assert back.refused == ()
    assert back.news == ("stream 'a' goes on where it was",)


def test_a_dropped_stream_without_checkpoints_is_forgotten() -> None:
    was = Declaration("f1", "4.3.0", {"a": dropped(), "b": DeclaredStream(None)})
    assert set(judged(was, declaration(b=None), "b").record.streams) == {"b"}


def test_other_changes_are_told() -> None:
    was = declaration(a=None, b=None, q=COUNT)
    now = replace(declaration("f2", a=None, c=None, q=SUM), spark="4.4.0")
    assert judged(was, now, "a", "q", allowed=allow(changed="q")).news == (
        "the file is f2, and was f1",
        "Spark is 4.4.0, and was 4.3.0",
        "stream 'c' begins",
        "stream 'b' is declared no more",
        "query 'q' goes on with the state of another one",
    )
    assert judged(None, now).news == (), "there was no last leader"


names = st.sampled_from("abcd")
shapes = st.none() | st.sampled_from([COUNT, SUM])
declarations = st.builds(
    Declaration,
    st.sampled_from(["f1", "f2"]),
    st.just("4.3.0"),
    st.dictionaries(names, st.builds(DeclaredStream, shapes), min_size=1),
)
recorded_ones = st.builds(
    Declaration,
    st.just("f1"),
    st.just("4.3.0"),
    st.dictionaries(names, st.builds(DeclaredStream, shapes, st.booleans())),
)


@given(recorded=st.none() | recorded_ones, declared=declarations, checkpointed=st.frozensets(names))
def test_whatever_was_allowed_once_is_never_asked_for_again(
    recorded: Declaration | None, declared: Declaration, checkpointed: frozenset[str]
) -> None:
    asked = judged(recorded, declared, *checkpointed)
    given = judged(recorded, declared, *checkpointed, allowed=asked.wanted)
    assert given.refused == ()
    assert given.needless == allow()
    for more in (checkpointed, checkpointed | set(declared.streams)):
        again = judged(given.record, declared, *more)
        assert (again.refused, again.record) == ((), given.record)


WEB, APP = Source.of("0", FILES, "json path=file:/web"), Source.of("0", FILES, "json path=file:/app")
CHANGED = "source 0 of query 'a' was [json path=file:/web], and would go on from there with [json path=file:/app]"


def reading(*sources: Source, shape: Shape | None = None, earlier: Earlier | None = None) -> Declaration:
    return Declaration("f1", "4.3.0", {"a": DeclaredStream(shape, earlier=earlier, sources=sources)})


def test_a_source_in_the_place_of_another_needs_a_flag_and_is_recorded_then() -> None:
    refused = judged(reading(WEB), reading(APP), "a")
    assert refused.wanted == Allowed(sources=frozenset({"a"}))
    assert refused.wanted.flags() == ("--changed-source a",)
    assert refused.refused[0].startswith(CHANGED)
    allowed = judged(reading(WEB), reading(APP), "a", allowed=Allowed(sources=frozenset({"a"})))
    assert (allowed.refused, allowed.news) == ((), ("query 'a' goes on with other sources",))
    assert allowed.record == reading(APP, earlier=Earlier(None, 5, (WEB,)))
    again = judged(allowed.record, reading(APP), "a", planned=4)
    assert (again.refused, again.news, again.record) == ((), (), allowed.record)


def test_what_an_older_version_has_not_recorded_is_taken_and_recorded() -> None:
    found = judged(reading(), reading(APP), "a")
    assert (found.refused, found.record) == ((), reading(APP))
    unrun = reading(shape=SUM, earlier=Earlier(COUNT, 4))
    found = judged(unrun, reading(APP, shape=SUM), "a", planned=3)
    assert (found.refused, found.record) == ((), reading(APP, shape=SUM, earlier=Earlier(COUNT, 4)))


def test_a_query_that_has_planned_nothing_may_read_anything() -> None:
    assert judged(reading(WEB), reading(APP)).refused == ()


def test_another_source_that_has_run_nothing_is_undone_without_a_flag() -> None:
    changed = reading(APP, earlier=Earlier(None, 4, (WEB,)))
    back = judged(changed, reading(WEB), "a", planned=3)
    assert (back.refused, back.record) == ((), reading(WEB))
    assert back.news == ("query 'a' goes on as it was: it has run nothing since it was changed",)
    run = judged(changed, reading(WEB), "a", planned=4)
    assert run.wanted == Allowed(sources=frozenset({"a"}))


def test_of_two_sources_that_have_run_nothing_the_positions_are_the_first_ones() -> None:
    third = Source.of("0", FILES, "json path=file:/third")
    changed = reading(APP, earlier=Earlier(None, 4, (WEB,)))
    found = judged(changed, reading(third), "a", planned=3, allowed=Allowed(sources=frozenset({"a"})))
    assert found.record == reading(third, earlier=Earlier(None, 5, (WEB,)))
    assert "was [json path=file:/web]" in judged(changed, reading(third), "a", planned=3).refused[0]


def test_state_and_sources_are_allowed_each_by_its_flag() -> None:
    was, now = reading(WEB, shape=COUNT), reading(APP, shape=SUM)
    assert judged(was, now, "a").wanted == Allowed(changed=frozenset({"a"}), sources=frozenset({"a"}))
    half = judged(was, now, "a", allowed=Allowed(changed=frozenset({"a"})))
    assert half.wanted == Allowed(sources=frozenset({"a"}))
    both = Allowed(changed=frozenset({"a"}), sources=frozenset({"a"}))
    assert judged(was, now, "a", allowed=both).record == reading(APP, shape=SUM, earlier=Earlier(COUNT, 5, (WEB,)))
    # of a change of both that has run nothing, each half is known
    unrun = reading(APP, shape=SUM, earlier=Earlier(COUNT, 4, (WEB,)))
    assert judged(unrun, reading(APP, shape=COUNT), "a", planned=3).refused == ()
    assert judged(unrun, reading(WEB, shape=SUM), "a", planned=3).refused == ()


def test_more_sources_cannot_be_allowed() -> None:
    more = reading(WEB, Source.of("1", FILES, "more"))
    found = judged(reading(WEB), more, "a", allowed=Allowed(sources=frozenset({"a"})))
    assert "had 1 sources" in found.refused[0]
    assert found.wanted == Allowed()
    assert found.needless == Allowed(sources=frozenset({"a"}))


def test_a_dropped_stream_that_comes_back_reads_what_it_read() -> None:
    left = Declaration("f1", "4.3.0", {"a": DeclaredStream(None, dropped=True, sources=(WEB,))})
    assert judged(left, reading(WEB), "a").refused == ()
    assert judged(left, reading(APP), "a").wanted == Allowed(sources=frozenset({"a"}))
