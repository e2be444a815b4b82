"""How a file looks: it opens with its promise, stays readable in size, and gives a reason for each exception."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from tests.house import tree

MAX_LINES = 450
SUPPRESSION = re.compile(
    r"#\s*(?:type:\s*ignore(?:\[[\w, -]+\])?|noqa(?::\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*)?|pragma: no cover)"
)


def test_every_module_says_what_it_promises() -> None:
    silent = [str(module) for module in tree.modules() if module.text.strip() and not ast.get_docstring(module.tree)]
    assert not silent, "open these with a docstring: the promise, and what is not promised"


def test_no_module_outgrows_its_reader() -> None:
    sizes = {str(module): module.text.count("\n") for module in tree.modules()}
    assert not {name: size for name, size in sizes.items() if size > MAX_LINES}, (
        "look for the second thing that each does"
    )


def public_functions(module: tree.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Those of a module; of an overloaded one, what is called."""
    for node in module.tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        if "overload" not in map(ast.unparse, node.decorator_list):
            yield node


def test_every_public_function_is_documented() -> None:
    bare = [
        f"{module}:{function.lineno} {function.name}"
        for module in tree.product()
        for function in public_functions(module)
        if not ast.get_docstring(function)
    ]
    assert not bare


def comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_every_suppression_has_its_reason_beside_it() -> None:
    bare = []
    for module in tree.modules():
        for line, comment in comments(module.text):
            rest, suppressions = SUPPRESSION.subn("", comment)
            if suppressions and not re.search(r"\w{3,}.*\w{2,}", rest):
                bare.append(f"{module}:{line} {comment}")
    assert not bare
