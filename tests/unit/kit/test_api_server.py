"""Which API server of Kubernetes the tests start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit.servers.kubernetes import api_server
from tests.kit.servers.programs import NotInstalled

VARIABLE = "TENURE_TEST_KUBE_APISERVER"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of builds, which is empty, on a machine that has no other API server."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    folder = tmp_path / "tenure"
    folder.mkdir()
    return folder


def build(cache: Path, name: str, *, at_s: int) -> str:
    """A build that `make kubernetes` made, or wanted again, at this time."""
    path = cache / name
    path.touch()
    os.utime(path, (at_s, at_s))
    return str(path)


def test_without_a_build_the_error_names_the_fix() -> None:
    with pytest.raises(NotInstalled, match=f"API server is not installed; run make kubernetes, or set {VARIABLE}$"):
        api_server()


def test_the_newest_whole_build_is_taken(cache: Path) -> None:
    build(cache, "kube-apiserver-1.35.0-bbbb", at_s=1)
    newest = build(cache, "kube-apiserver-1.34.4-aaaa", at_s=2)
    build(cache, ".building-7", at_s=3)
    build(cache, "build.log", at_s=4)
    assert api_server() == newest


def test_the_variable_goes_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(cache, "kube-apiserver-1.34.4-aaaa", at_s=1)
    monkeypatch.setenv(VARIABLE, "/opt/kube-apiserver")
    assert api_server() == "/opt/kube-apiserver"
