"""A driver's temporary folder: whose it is, and when it is nobody's."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tenure import file_locks
from tenure.errors import UsageError
from tenure.link.driver_folder import DriverFolder, full_disk_fix, remove_abandoned, temporary_folder


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "the root"
    root.mkdir()
    monkeypatch.setenv("TMPDIR", str(root))
    return root


def fill(made: DriverFolder) -> None:
    (made.path / "spark" / "userFiles").mkdir(parents=True)
    (made.path / "spark" / "linked").symlink_to("/")
    (made.path / "librocksdbjni.so").write_text("x")


def abandon(made: DriverFolder) -> None:
    """What the kernel does when its processes have ended."""
    fill(made)
    os.close(made.lock)


def test_it_goes_with_all_that_is_in_it(root: Path) -> None:
    made = DriverFolder.make("anna")
    fill(made)
    assert made.path.parent == root
    assert made.path.stat().st_mode & 0o777 == 0o700
    made.remove()
    assert list(root.iterdir()) == []


def test_python_and_any_jvm_take_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    made = DriverFolder.make("anna")
    assert made.environment["TMPDIR"] == str(made.path)
    assert shlex.split(made.environment["JAVA_TOOL_OPTIONS"]) == [f"-Djava.io.tmpdir={made.path}"]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Djava.io.tmpdir=/theirs")
    last = shlex.split(made.environment["JAVA_TOOL_OPTIONS"])[-1]
    assert last == "-Djava.io.tmpdir=/theirs", "the JVM takes the last one"
    made.remove()


def test_the_next_start_removes_those_that_nobody_holds_whoever_they_were(root: Path) -> None:
    held = DriverFolder.make("ben")
    abandon(DriverFolder.make("anna"))
    abandon(DriverFolder.make("host-17-abcd"))
    made = DriverFolder.make("host-18-ef01")
    assert set(root.iterdir()) == {held.path, made.path}
    made.remove()
    held.remove()


def test_one_is_held_as_long_as_the_driver_lives_though_its_agent_has_ended(root: Path) -> None:
    made = DriverFolder.make("anna")
    driver = subprocess.Popen(["sleep", "1000"], pass_fds=(made.lock,))
    try:
        abandon(made)
        remove_abandoned(root)
        assert (made.path / "librocksdbjni.so").exists()
    finally:
        driver.kill()
        driver.wait()
    remove_abandoned(root)
    assert list(root.iterdir()) == []


def test_a_removal_that_was_cut_off_goes_on(root: Path) -> None:
    nearly = DriverFolder.make("anna")
    os.close(nearly.lock)
    (nearly.path / "lock").unlink()
    remove_abandoned(root)
    assert list(root.iterdir()) == []


def test_nothing_else_is_touched(root: Path, tmp_path: Path) -> None:
    name = f"tenure-driver-anna.{'0' * 12}"
    for other in ("tenure-driver-anna", f"my-{name}", f"{name}x", "tenure-sweep-17.spark.log"):
        (root / other).mkdir()
        (root / other / "lock").touch()
    (root / f"tenure-driver-a.{'1' * 12}").touch()
    (root / f"tenure-driver-b.{'2' * 12}").symlink_to(root / "tenure-driver-anna")
    (root / f"tenure-driver-c.{'3' * 12}").mkdir()
    (root / f"tenure-driver-c.{'3' * 12}" / "theirs").touch()
    linked = root / f"tenure-driver-d.{'4' * 12}"
    linked.mkdir()
    (tmp_path / "lock").touch()
    (linked / "lock").symlink_to(tmp_path / "lock")
    before = sorted(root.rglob("*"))
    remove_abandoned(root)
    assert sorted(root.rglob("*")) == before


def test_another_users_is_not_touched(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = DriverFolder.make("anna")
    abandon(made)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    remove_abandoned(root)
    assert made.path.exists()


def test_one_that_was_taken_for_abandoned_as_it_was_made_is_made_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = file_locks.take_lock
    taken: list[Path] = []

    def too_late(lock: int) -> bool:
        if not taken:
            taken.extend(root.iterdir())
            remove_abandoned(root)
            assert list(root.iterdir()) == []
        return take(lock)

    # The other one takes it, as it is not locked yet.
    monkeypatch.setattr(file_locks, "take_lock", lambda lock: too_late(lock) if not taken else take(lock))
    made = DriverFolder.make("anna")
    assert taken != [made.path]
    assert list(root.iterdir()) == [made.path]
    made.remove()


def test_a_disk_that_is_full_is_one_line(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", refuse)
    with pytest.raises(UsageError) as failed:
        DriverFolder.make("anna")
    assert str(failed.value) == (
        f"the temporary folder '{root}' cannot be used: No space left on device; "
        "make room in it, or set TMPDIR to a folder that can be written to"
    )
    assert list(root.iterdir()) == []


def test_one_that_the_environment_names_is_not_exchanged_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setenv("TEMP", "/no/such")
    assert temporary_folder() == Path("/no/such")
    with pytest.raises(UsageError, match="'/no/such' cannot be used: No such file or directory; make room"):
        DriverFolder.make("anna")


def test_without_any_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp', '/var/tmp']")

    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.gettempdir", none)
    with pytest.raises(UsageError, match="no temporary folder can be used"):
        DriverFolder.make("anna")


@pytest.mark.parametrize(
    ("why", "free_mib", "told"),
    [
        ("No space left on device", 3, "make room in the temporary folder '{}', which has 3 MiB of free space"),
        ("No space left on device", 64, "free space on that disk"),
        ("Permission denied", 3, "None"),
    ],
)
def test_a_full_disk_is_told_by_its_name_where_it_is_this_one(
    root: Path, monkeypatch: pytest.MonkeyPatch, why: str, free_mib: int, told: str
) -> None:
    usage = shutil.disk_usage(root)._replace(free=free_mib << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    assert str(full_disk_fix(f"java.io.IOException: {why}")).startswith(told.format(root))
