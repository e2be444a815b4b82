"""What is checked before a member starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.assembly import _is_used


@pytest.mark.parametrize(
    ("path", "used"),
    [
        ("runs/q/e00000001-anna-0123456789ab/offsets", True),
        ("runs/q", False),
        ("runs/q/notes", False),
        ("blobs/e00000001", False),
    ],
)
def test_a_storage_is_used_when_there_is_a_run_directory(tmp_path: Path, path: str, used: bool) -> None:
    (tmp_path / path).mkdir(parents=True)
    assert _is_used(str(tmp_path)) is used


def test_what_cannot_be_looked_at_is_nothing_that_speaks_against_a_start(tmp_path: Path) -> None:
    """Run directories on another disk, behind a link: they are not swept either."""
    (tmp_path / "elsewhere" / "q" / "e00000001-anna-0123456789ab").mkdir(parents=True)
    (tmp_path / "scope").mkdir()
    (tmp_path / "scope" / "runs").symlink_to(tmp_path / "elsewhere")
    assert not _is_used(str(tmp_path / "scope"))
