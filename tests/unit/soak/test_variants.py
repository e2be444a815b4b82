"""Which product the soak runs: a mutant is applied to a copy, and members import that copy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tests.mutants.mutant import PACKAGE, DoesNotApply
from tests.soak.variants import VariantError, environment, other_spark, package_of


@pytest.mark.parametrize("of_another_spark", [None, "/spark-3.5"])
def test_without_anything_it_is_this_tree(monkeypatch: pytest.MonkeyPatch, of_another_spark: str | None) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if of_another_spark is not None:
        monkeypatch.setenv("PYTHONPATH", of_another_spark)
    with package_of(without=None, package=None) as holder:
        assert holder == ROOT / "src"
        path = environment(holder, archive=None)["PYTHONPATH"].split(":")
    assert path == [str(ROOT / "src"), str(ROOT), *([of_another_spark] if of_another_spark else [])]


def test_a_mutant_changes_a_copy_which_members_import() -> None:
    original = (PACKAGE / "coordination" / "term.py").read_text()
    with package_of(without="no-fence", package=None) as holder:
        changed = (holder / "tenure" / "coordination" / "term.py").read_text()
        assert changed != original
        assert environment(holder, archive=None)["PYTHONPATH"].startswith(f"{holder}:")
    assert (PACKAGE / "coordination" / "term.py").read_text() == original
    assert not holder.exists()


def test_a_mutant_that_is_not_there_is_named() -> None:
    with pytest.raises(VariantError, match="no mutant is named 'rule-x'"), package_of(without="rule-x", package=None):
        pass


@pytest.mark.parametrize("below", ["", "src", "src/tenure"])
def test_another_package_is_named_by_its_folder_or_its_checkout(tmp_path: Path, below: str) -> None:
    (tmp_path / "src" / "tenure").mkdir(parents=True)
    (tmp_path / "src" / "tenure" / "__init__.py").touch()
    with package_of(without=None, package=tmp_path / below) as holder:
        assert holder == tmp_path / "src"
        environment(holder, archive=None)


def test_a_folder_without_the_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VariantError, match="holds no package"), package_of(without=None, package=tmp_path):
        pass
    with pytest.raises(VariantError, match="members would not run"):
        environment(tmp_path, archive=None)


def test_a_mutant_that_does_not_fit_another_package_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tenure" / "coordination").mkdir(parents=True)
    (tmp_path / "tenure" / "__init__.py").touch()
    (tmp_path / "tenure" / "coordination" / "term.py").touch()
    with pytest.raises(DoesNotApply), package_of(without="no-fence", package=tmp_path):
        pass


@pytest.mark.parametrize(("folder", "release"), [("spark-3.5", "3.5"), ("site-packages", None)])
def test_another_spark_is_known_by_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, release: str | None
) -> None:
    (tmp_path / folder / "pyspark").mkdir(parents=True)
    (tmp_path / folder / "pyspark" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path / folder), *sys.path])
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    assert other_spark() == release
