"""The vendored library of the page is the published one, and what the page loads is in the package."""

from __future__ import annotations

import re

import pytest

from scripts import vendor
from tenure.ui.app import STATIC
from tests.house import tree


@pytest.mark.parametrize("name", vendor.FILES)
def test_a_vendored_file_is_as_it_was_published(name: str) -> None:
    assert vendor.hash_of((vendor.FOLDER / name).read_bytes()) == vendor.FILES[name].sha512


def test_nothing_else_is_vendored() -> None:
    assert {path.name for path in vendor.FOLDER.iterdir()} == set(vendor.FILES)


def test_the_licence_of_the_library_goes_with_the_package() -> None:
    assert "uPlot" in (tree.ROOT / "LICENSE").read_text(encoding="utf-8")
    assert f"src/tenure/ui/static/vendor/{vendor.LICENSE}" in (tree.ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_page_loads_nothing_from_elsewhere() -> None:
    ours = [path for path in STATIC.iterdir() if path.suffix in (".js", ".css", ".html", ".svg")]
    assert len(ours) > 8
    allowed = ("http://www.w3.org/2000/svg",)
    for path in ours:
        found = [
            url for url in re.findall(r"https?://[^\s\"'`)]+", path.read_text(encoding="utf-8")) if url not in allowed
        ]
        assert not found, path.name


def test_what_the_page_loads_is_there() -> None:
    html = (STATIC / "index.html").read_text(encoding="utf-8")
    for name in re.findall(r"\{root\}/static/([\w./]+)", html):
        assert (STATIC / name).exists(), name
    for script in STATIC.glob("*.js"):
        for name in re.findall(r'from "\./([\w.]+)"', script.read_text(encoding="utf-8")):
            assert (STATIC / name).exists(), name


def test_git_keeps_the_static_files_so_the_wheel_has_them() -> None:
    """Hatch puts into the wheel all files of the package that git does not ignore."""
    kept = set(tree.files())
    assert {path for path in STATIC.rglob("*") if path.is_file()} <= kept
