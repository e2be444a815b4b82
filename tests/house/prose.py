"""The prose of the tree: docstrings, comments and pages, and the words that hide their subject."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Final

from tests.house import tree

WORST: Final = {
    "name the thing instead of 'what is ...'": re.compile(
        r"\b[Ww]hat (?:is|was|are|were|has been|else|goes|comes|came|nobody|somebody)\b"
    ),
    "name the thing instead of 'one'": re.compile(
        r"\b[Oo]nes? (?:that|which|who|is|was|has|goes|of (?:its|it|them|these|those))\b"
        r"|\b(?:the|that|this|other|such an?|another|older|newer|later|earlier|last|first|next|newest|same) ones?\b"
    ),
    "name the subject instead of 'whoever', 'whatever', 'that which'": re.compile(
        r"\b(?:[Ww]hoever|[Ww]hatever|[Tt]hat which)\b"
    ),
    "say who tells whom what": re.compile(r"\b(?:is|was|are|were|be|been) told\b|\btells? of\b|\btold of\b"),
}
"""What to do -> the words that ask for it. STYLE.md has the whole list."""


def of_module(module: tree.Module) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module, with their lines. A text below an attribute is a docstring, too."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def of_page(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a page that are no code, numbered."""
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield number, re.sub(r"`[^`]*`", "", line)


def hidden_subjects(texts: Iterator[tuple[int, str]]) -> Iterator[str]:
    """Each of the worst words, with its line and what to do."""
    for line, text in texts:
        flat = " ".join(text.split())
        for advice, words in WORST.items():
            for found in words.finditer(flat):
                yield f"{line}: {flat[max(0, found.start() - 40) : found.end() + 40]!r}: {advice}"
