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


def test_each_mutant_fits_the_sources() -> None:
    wrong = []
    for mutant in MUTANTS:
        try:
            same = [path for path, text in apply(mutant).items() if text == path.read_text(encoding="utf-8")]
        except (DoesNotApply, SyntaxError, FileNotFoundError) as error:
            wrong.append(f"{mutant.name}: {error}")
        else:
            wrong += [f"{mutant.name} changes nothing in {path}" for path in same]
    assert not wrong


def test_each_mutant_names_tests_that_are_there() -> None:
    conformance = "".join(
        path.read_text(encoding="utf-8") for path in (tree.ROOT / "tests/kit/conformance").glob("*.py")
    )
    known = {str(module): module.text for module in tree.modules()}
    for_nothing = [mutant.name for mutant in MUTANTS if not mutant.tests]
    gone = []
    for mutant in MUTANTS:
        for test in mutant.tests:
            file, *_, function = re.sub(r"\[.*\]$", "", test).split("::")
            if f"def {function}(" not in known.get(file, "") + conformance or file not in known:
                gone.append(f"{mutant.name}: {test}")
    assert not for_nothing
    assert not gone


@pytest.mark.parametrize("old", ["no such text", "\n"], ids=["nowhere", "more than once"])
def test_a_change_that_does_not_fit_once_is_an_error(old: str) -> None:
    with pytest.raises(DoesNotApply, match=r"clock\.py has its text"):
        apply(Mutant("m", "none", (Change("clock.py", old, "new"),), ()))
