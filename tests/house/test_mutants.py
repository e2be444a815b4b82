"""The mutants keep up with the product: each fits the sources, and names tests that are there."""

from __future__ import annotations

import re

import pytest

from tests.house import tree
from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Change, DoesNotApply, Mutant, apply


def test_each_mutant_has_a_name_of_its_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_sources(mutant: Mutant) -> None:
    for path, text in apply(mutant).items():
        assert text != path.read_text(encoding="utf-8")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_names_tests_that_are_there(mutant: Mutant) -> None:
    assert mutant.tests
    conformance = "".join(
        path.read_text(encoding="utf-8") for path in (tree.ROOT / "tests/kit/conformance").glob("*.py")
    )
    for test in mutant.tests:
        file, *_, function = re.sub(r"\[.*\]$", "", test).split("::")
        text = (tree.ROOT / file).read_text(encoding="utf-8") + conformance
        assert f"def {function}(" in text, test


@pytest.mark.parametrize("old", ["no such text", "\n"], ids=["nowhere", "more than once"])
def test_a_change_that_does_not_fit_once_is_an_error(old: str) -> None:
    with pytest.raises(DoesNotApply, match=r"clock\.py has its text"):
        apply(Mutant("m", "none", (Change("clock.py", old, "new"),), ()))
