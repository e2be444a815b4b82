"""How long the soak waits for what is not told: a machine that is busy is no pipeline that stands still."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import checks


def test_what_the_machine_owes_is_what_linux_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tmp_path / "cpu"
    monkeypatch.setattr(checks, "_PRESSURE", said)
    assert checks.waited_s() == 0.0
    said.write_text(
        "some avg10=29.13 avg60=62.47 avg300=74.08 total=21108675544\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    )
    assert checks.waited_s() == 21108.675544
