"""Makes code hard to enter: long lists of arguments, branches on kinds of storage, names that say nothing."""

from __future__ import annotations

import ast
from collections import defaultdict

from scripts import counts
from tests.house import tree

SIBLINGS = frozenset({"Sightings", "Staged"})
"""Classes that are the same thing in two backends, or in two sinks."""

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


def test_a_class_has_a_name_of_its_own() -> None:
    homes = defaultdict(set)
    for module in tree.product():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and node.name not in SIBLINGS:
                homes[node.name].add(str(module))
    assert not {name: sorted(modules) for name, modules in homes.items() if len(modules) > 1}
