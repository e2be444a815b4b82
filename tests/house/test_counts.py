"""Makes code hard to enter: long lists of arguments, branches on kinds of storage, names that say nothing."""

from __future__ import annotations

from scripts import counts
from tests.house import tree

SAYS_NOTHING = frozenset(
    {
        *(
            "attempts",
            "bringing",
            "callbacks",
            "declaring",
            "holding",
            "judging",
            "leavings",
            "pieces",
            "place",
            "requests",
        ),
        *("rig", "rigs", "seed_plan", "several", "side_by_side", "strike", "sweeping", "told"),
        *("common", "helpers", "misc", "util", "utils"),
    }
)
"""Names of modules that do not say what is in them."""


def too_many(*, constructors: bool, most: int) -> list[str]:
    return [
        f"{module}:{line} {name} takes {count}"
        for module in tree.product()
        for count, name, line in counts.arguments(module.text)
        if (name == "__init__") is constructors and count > most
    ]


def test_no_constructor_takes_more_than_seven_arguments() -> None:
    assert not too_many(constructors=True, most=counts.MOST_OF_CONSTRUCTORS)


def test_no_function_takes_more_than_six_arguments() -> None:
    assert not too_many(constructors=False, most=counts.MOST_OF_FUNCTIONS)


def test_kinds_of_storage_are_told_apart_in_their_room_only() -> None:
    outside = [module for module in tree.product() if not module.name.startswith("tenure.storage")]
    assert not [str(module) for module in outside if counts.KIND.search(module.text)]


def test_a_module_is_named_by_what_is_in_it() -> None:
    assert not [str(module) for module in tree.product() if module.path.stem in SAYS_NOTHING]
