"""Prose names its subject (STYLE.md, "Words")."""

from __future__ import annotations

import pytest

from tests.house import prose, tree


def test_docstrings_and_comments_name_their_subject() -> None:
    hidden = [
        f"{module}:{line}" for module in tree.product() for line in prose.hidden_subjects(prose.of_module(module))
    ]
    assert not hidden


@pytest.mark.parametrize(
    "text",
    ["what is left of it", "the one that leads", "whoever leads", "it is told twice", "a newer one"],
)
def test_the_worst_words_are_seen(text: str) -> None:
    assert list(prose.hidden_subjects(iter([(1, text)])))
