"""Which releases of Spark may go on after which: a table of two members' releases."""

from __future__ import annotations

import pytest

from tenure.declarations.declaration import Declaration, EarlierSpark
from tenure.declarations.sparks import check_spark, epochs_of, release_of, spark_before, spark_of
from tenure.errors import DeclaredOtherwise

RELEASES = ("3.5.9", "4.0.5", "4.1.4", "4.2.1", "4.3.0", "4.10.0")


def never() -> list[int]:
    raise AssertionError("nobody has to read the checkpoints")


def ran(spark: str, before: EarlierSpark | None = None) -> Declaration:
    return Declaration("f", spark, {}, "UTC", before)


@pytest.mark.parametrize("mine", RELEASES)
@pytest.mark.parametrize("theirs", RELEASES)
def test_an_older_release_is_refused_in_one_line_that_names_both(mine: str, theirs: str) -> None:
    if RELEASES.index(mine) >= RELEASES.index(theirs):
        check_spark("rows", ran(theirs), lambda: [7], spark=mine)
        return
    with pytest.raises(DeclaredOtherwise) as refused:
        check_spark("rows", ran(theirs), lambda: [7], spark=mine)
    assert str(refused.value) == (
        f"scope 'rows' has run with Spark {theirs}, and this member has Spark {mine}, which may misread the state and "
        f"the logs of the newer release; start this member with Spark {theirs.rpartition('.')[0]} or newer"
    )
    assert refused.value.exit_code == 12


@pytest.mark.parametrize("mine", ["4.3.0", "4.3.1", "4.3.0-amzn-1", "4.3.0.dev0", "unknown", ""])
def test_patch_releases_do_not_differ_and_what_is_no_version_is_not_judged(mine: str) -> None:
    check_spark("rows", ran("4.3.1"), never, spark=mine)


def test_nothing_is_refused_before_there_is_anything_to_misread() -> None:
    check_spark("rows", None, never, spark="3.5.9")
    check_spark("rows", ran("4.3.0"), list, spark="3.5.9")


@pytest.mark.parametrize(("epochs", "wrote"), [([], None), ([3, 6], "3.5.9"), ([3, 7], "4.3.0"), ([8], "4.3.0")])
def test_the_newer_spark_counts_once_one_of_its_terms_has_planned(epochs: list[int], wrote: str | None) -> None:
    assert spark_of(ran("4.3.0", EarlierSpark("3.5.9", 7)), epochs) == wrote


def test_until_then_the_scope_goes_back_or_to_any_release_between() -> None:
    upgraded = ran("4.3.0", EarlierSpark("4.0.5", 7))
    for mine in ("4.0.5", "4.1.4"):
        check_spark("rows", upgraded, lambda: [6], spark=mine)
        with pytest.raises(DeclaredOtherwise, match=r"has run with Spark 4\.3\.0"):
            check_spark("rows", upgraded, lambda: [6, 7], spark=mine)
    with pytest.raises(DeclaredOtherwise, match=r"has run with Spark 4\.0\.5, and this member has Spark 3\.5\.9"):
        check_spark("rows", upgraded, lambda: [6], spark="3.5.9")


@pytest.mark.parametrize(
    ("recorded", "epochs", "mine", "before"),
    [
        (None, [], "4.3.0", None),
        (ran("4.3.0"), [6], "4.3.1", None),
        (ran("4.0.5"), [], "4.3.0", None),
        (ran("4.0.5"), [6], "4.3.0", EarlierSpark("4.0.5", 8)),
        (
            ran("4.3.0", EarlierSpark("4.0.5", 7)),
            [6],
            "4.3.1",
            EarlierSpark("4.0.5", 7),
        ),  # again
        (ran("4.3.0", EarlierSpark("4.0.5", 7)), [6], "4.0.4", None),  # it goes back
        (ran("4.3.0", EarlierSpark("4.0.5", 7)), [6], "4.1.4", EarlierSpark("4.0.5", 8)),
        (ran("4.1.4", EarlierSpark("4.0.5", 6)), [6], "4.3.0", EarlierSpark("4.1.4", 8)),
    ],
)
def test_the_record_keeps_the_spark_of_the_checkpoints(
    recorded: Declaration | None, epochs: list[int], mine: str, before: EarlierSpark | None
) -> None:
    assert spark_before(recorded, lambda: epochs, spark=mine, epoch=8) == before


def test_the_release_is_the_two_numbers_in_front() -> None:
    assert release_of("4.10.2-amzn-1") == (4, 10)
    assert release_of("x") is None
    assert epochs_of([]) == []
