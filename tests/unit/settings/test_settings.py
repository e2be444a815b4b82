"""Flags > environment > tenure.toml > defaults; what cannot be used is one UsageError line."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenure.durations import parse_duration
from tenure.errors import UsageError
from tenure.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("TENURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


UNITS = {"ms": timedelta(milliseconds=1), "s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1)}


@given(number=st.integers(0, 10**6), unit=st.sampled_from(list(UNITS)), gap=st.sampled_from(["", " "]))
def test_a_whole_number_with_a_unit_is_that_long(number: int, unit: str, gap: str) -> None:
    assert parse_duration(f"{number}{gap}{unit}") == number * UNITS[unit]


@given(milliseconds=st.integers(0, 10**9))
def test_a_fraction_is_read_to_the_millisecond(milliseconds: int) -> None:
    found = parse_duration(f"{milliseconds // 1000}.{milliseconds % 1000:03d}s")
    assert abs(found - timedelta(milliseconds=milliseconds)) < timedelta(microseconds=2)


@given(st.text())
@example("5")
@example("-5s")
@example("5 s s")
@example("1e3s")
@example("٣s")
@example("9" * 400 + "h")
@example("999999999h")
def test_other_text_is_refused_and_nothing_else_happens(text: str) -> None:
    try:
        found = parse_duration(text)
    except ValueError:
        return
    assert text.strip()[0].isdecimal()
    assert found >= timedelta(0)


def test_a_duration_stays_one() -> None:
    assert parse_duration(timedelta(seconds=3)) == timedelta(seconds=3)


def test_flags_beat_the_environment_beats_the_file_beats_the_defaults(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert load_settings().ttl == timedelta(seconds=10)
    (tmp_path / "tenure.toml").write_text('ttl = "3s"\nmember = "file"\nscope = "file"\n')
    assert load_settings().ttl == timedelta(seconds=3)
    monkeypatch.setenv("TENURE_TTL", "4s")
    monkeypatch.setenv("TENURE_SCOPE", "env")
    assert load_settings().ttl == timedelta(seconds=4)
    found = load_settings(ttl="5s", scope=None)
    assert (found.ttl, found.scope, found.member) == (timedelta(seconds=5), "env", "file")


def test_tables_of_the_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "tenure.toml").write_text('[params]\ninput = "/data"\n[conf]\n"spark.x.y" = "2"\n')
    found = load_settings()
    assert (found.params, found.conf) == ({"input": "/data"}, {"spark.x.y": "2"})


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ({"ttl": "5"}, r"setting 'ttl' cannot be '5'; a duration is a number with a unit"),
        ({"ttl": "-5s"}, r"setting 'ttl' cannot be '-5s'; a duration is"),
        ({"ttl": "499ms"}, r"setting 'ttl' cannot be '499ms'; it is at least 500ms"),
        ({"stop_patience": "x"}, r"setting 'stop_patience' cannot be 'x'; a duration"),
        ({"ttl": "999999999999h"}, r"setting 'ttl' cannot be '999999999999h'; "),
        (
            {"cleanup_retry": "never"},
            r"setting 'cleanup_retry' cannot be 'never'; Input should be 'exponential-delay', ",
        ),
        ({"cleanup_delay": "0s"}, r"setting 'cleanup_delay' cannot be '0s'; it is more than 0s"),
        ({"cleanup_attempts": 0}, r"setting 'cleanup_attempts' cannot be 0; "),
        ({"checkpoints_kept": 0}, r"setting 'checkpoints_kept' cannot be 0; "),
        ({"colour": "red"}, r"there is no setting 'colour'; see the page Settings"),
        ({"tll": "4s"}, r"there is no setting 'tll'; did you mean 'ttl'\?"),
    ],
)
def test_a_flag_that_cannot_be_used_is_one_line(flags: dict[str, object], line: str) -> None:
    with pytest.raises(UsageError, match=line) as refused:
        load_settings(**flags)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('ttl = "soon"\n', "'ttl' cannot be 'soon'"),
        ('colour = "red"\n', "there is no setting 'colour'"),
        ('tll = "4s"\n', r"there is no setting 'tll'; did you mean 'ttl'\?"),
        ("[params]\ninput = 5\n", r"'params\.input' cannot be 5"),
        ("ttl = \n", r"tenure\.toml"),
        ("ttl = '5s'\nttl = '6s'\n", r"tenure\.toml"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "tenure.toml").write_text(text)
    with pytest.raises(UsageError, match=line) as refused:
        load_settings()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("TENURE_TTL", "soon", "'ttl' cannot be 'soon'"),
        ("TENURE_PARAMS", "input=/data", r"TENURE_\*"),
        ("TENURE_PARAMS", '["input"]', "'params' cannot be"),
        ("TENURE_CHECKPOINTS_KEPT", "many", "'checkpoints_kept' cannot be 'many'"),
    ],
)
def test_an_environment_that_cannot_be_used_is_one_line(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, line: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=line) as refused:
        load_settings()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["store", "storage", "scope"])
def test_what_a_command_needs_and_is_not_set(name: str) -> None:
    with pytest.raises(UsageError, match=rf"no {name} is set; give --{name}, set TENURE_{name.upper()}, or"):
        Settings().required(name)


@pytest.mark.parametrize(
    ("text", "delays"),
    [
        ("", [1.0, 2.0, 4.0]),
        ('cleanup_delay = "2s"\ncleanup_delay_maximum = "3s"', [2.0, 3.0, 3.0]),
        ('cleanup_retry = "fixed-delay"\ncleanup_delay = "5s"\ncleanup_attempts = 3', [5.0, 5.0]),
        ('cleanup_retry = "none"\ncleanup_attempts = 3', []),
    ],
    ids=["default", "exponential", "fixed", "none"],
)
def test_how_a_cleanup_is_tried_again(tmp_path: Path, text: str, delays: list[float]) -> None:
    (tmp_path / "tenure.toml").write_text(text)
    found = load_settings().cleanup_policy().delays_s(chance=lambda: 0.0)
    assert [delay for delay, _ in zip(found, range(3), strict=False)] == delays
