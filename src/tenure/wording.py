"""The message of a foreign error as one line for a person; stacks, plans and further lines are for logs.

Promise: one line without a stack frame of Java, Scala, Python or Rust. The text may come from Spark, py4j or delta-rs,
be wrapped in an exception of Python, or have its lines joined already.
"""

from __future__ import annotations

import re
from typing import Final

_MOST: Final = 600
_FRAMES: Final = re.compile(
    r"""\s+(?:
    at\ (?:[\w.$@-]+/)*[\w.$<>]+  # Java's: the module or the loader, the class, the method
    \((?:[\w$-]+\.(?:java|scala|kt)(?::\d+)?|Native\ Method|Unknown\ Source|<generated>)\)
    |\d+:\ <unknown>  # Rust's
    ).*""",
    flags=re.DOTALL | re.VERBOSE,
)
_STACK: Final = re.compile(
    r"""\n(?:
    \s*(?:\.\.\.\ \d+\ more|Caused\ by:\ |Suppressed:\ |JVM\ stacktrace:|===\ Streaming)  # Java's, Spark's
    |\s*\+?\ *(?:Exception\ Group\ )?Traceback\ \(  # Python's
    |\s+\d+:\ [\w<]+::|\s*Stack\ backtrace:  # Rust's
    ).*""",
    flags=re.DOTALL | re.VERBOSE,
)
_TAIL: Final = re.compile(r"\n(?:\s*JVM stacktrace:|=== Streaming Query ===)\n.*", flags=re.DOTALL)
_PYTHON_CAUSE: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*(?=\S)")
_OF_GROUP: Final = re.compile(r"^ *[|+] ?", flags=re.MULTILINE)
_STREAM_FAILED: Final = re.compile(r"\A\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")
"""Tenure names the query itself."""
_JVM_CAUSE: Final = re.compile(r"^Caused by: (.+)$", flags=re.MULTILINE)
_CALLED: Final = re.compile(r"An error occurred while calling [^\n]*\n: ")
_MODULE: Final = re.compile(r"\A(?:pyspark\.errors\.exceptions\.\w+|py4j\.protocol)\.")


def on_one_line(text: str) -> str:
    """The lines of a text for people, joined to one line and cut off before the first stack."""
    found = _FRAMES.sub("", _STACK.sub("", text))
    return " ".join(found.split()) if "\n" in found else found


def sentence(text: str) -> str:
    """The sentence that matters in an error: a Python worker's error, the JVM's innermost cause, or the first line."""
    text = _TAIL.sub("", text.strip())
    if "Exception Group Traceback (" in text:
        text = _OF_GROUP.sub("", text)
    raised = list(_PYTHON_CAUSE.finditer(text))
    if raised:
        text = text[raised[-1].end() :]
    called = _CALLED.search(text)
    causes = [] if raised and called is None else _JVM_CAUSE.findall(text)
    if causes:
        text = causes[-1]
    elif called is not None:
        text = text[called.end() :]
    said = on_one_line(_MODULE.sub("", _first(_STREAM_FAILED.sub("", text))))
    return " ".join(said.split()).rstrip("; ")[:_MOST]


def _first(text: str) -> str:
    """The first line that is not empty; with the line after it, if it ends with a colon."""
    lines = [line for line in text.splitlines() if line.strip()]
    announces = len(lines) > 1 and lines[0].rstrip().endswith(":")
    return " ".join(lines[: 2 if announces else 1])
