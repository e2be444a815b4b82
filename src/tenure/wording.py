"""The message of a foreign error as one line for a person; stacks, plans and further lines are for logs.

Promise: one line without a stack frame of Java, Scala, Python or Rust, and without a password. The text may come from
Spark, py4j or delta-rs, be wrapped in an exception of Python, or have its lines joined already. A password is known by
its place: in a URL before the hosts, or behind a name that says what it is. Not promised: the removal of a secret that
stands in a text without such a place.
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
_PORT: Final = r"(?!\d+(?:[,/?#'\"\s]|$))"
"""A number and the end of a host stand here: no password begins."""
_IN_URLS: Final = re.compile(rf"""(://[^\s/?#'"@:]*):(?:{_PORT}\S*|[^\s/?#'"]*)@""")
"""Also a password with a character that a URL cannot have. It may take the beginning of the hosts along."""
_OF_URL: Final = re.compile(rf"(://[^/?#@:]*):{_PORT}.*@", flags=re.DOTALL)
_NAMED: Final = re.compile(
    r"""(?P<name>(?:password|passwd|secret|token)(?:[._-]?(?:access[._-]?)?key)?|account\.key[\w.-]*)
    (?P<sign>\s?=\s?|['"]\s*:\s*)
    (?:"[^"]*"|'[^']*'|[^\s&;,'")}]+)""",
    flags=re.IGNORECASE | re.VERBOSE,
)
_HIDDEN: Final = "***"

_MODULE: Final = re.compile(r"\A(?:pyspark\.errors\.exceptions\.\w+|py4j\.protocol)\.")


def on_one_line(text: str) -> str:
    """The lines of a text for people, joined to one line and cut off before the first stack, without passwords."""
    found = masked(_FRAMES.sub("", _STACK.sub("", text)))
    return " ".join(found.split()) if "\n" in found else found


def masked(text: str) -> str:
    """The text with `***` for each password in it."""
    if "=" in text or ":" in text:
        text = _NAMED.sub(rf"\g<name>\g<sign>{_HIDDEN}", _IN_URLS.sub(rf"\1:{_HIDDEN}@", text))
    return text


def masked_url(url: str) -> str:
    """The URL with `***` for its password, whichever characters that has."""
    return masked(_OF_URL.sub(rf"\1:{_HIDDEN}@", url))


def has_password(url: str) -> bool:
    """Whether a password stands before the hosts of a URL."""
    return _OF_URL.search(url) is not None or _IN_URLS.search(url) is not None


def how_to_install(extra: str) -> str:
    """How to get the packages of an extra. The index of PyPI has no package of our name: only the clone and its wheel
    are ours."""
    return f"run pip install '.[{extra}]' in the clone of Tenure, or pip install 'WHEEL[{extra}]' with its wheel"


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
        text = _telling(causes)
    elif called is not None:
        text = text[called.end() :]
    said = on_one_line(_MODULE.sub("", _first(_STREAM_FAILED.sub("", text))))
    return " ".join(said.split()).rstrip("; ")[:_MOST]


def _telling(causes: list[str]) -> str:
    """The innermost cause; or the cause around it, if that has the same message and words before it: Java's
    "Cannot run program X: error=2" is around "error=2". A cause that repeats the class, too, says nothing more."""
    if len(causes) > 1:
        around, inner = causes[-2:]
        message = inner.partition(": ")[2]
        if message and around.endswith(f": {message}") and not around.endswith(inner):
            return around
    return causes[-1]


def _first(text: str) -> str:
    """The first line that is not empty; with the line after it, if it ends with a colon."""
    lines = [line for line in text.splitlines() if line.strip()]
    announces = len(lines) > 1 and lines[0].rstrip().endswith(":")
    return " ".join(lines[: 2 if announces else 1])
