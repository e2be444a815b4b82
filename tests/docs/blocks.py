"""The fenced blocks of the pages, and the commands in them.

Promise: a block is named by the two words behind its fence, its language and its role (```` ```sh terminal-1 ````).
`KINDS` says which there are and what runs each, so a block of a kind that nothing runs cannot stay in a page.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.house import tree

FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`(tenure [^`]+)`(?!`)")

START: Final = "docs/start.md"
KUBERNETES: Final = "docs/kubernetes.md"
S3: Final = "docs/s3.md"
KAFKA: Final = "docs/kafka.md"
HDFS: Final = "docs/hdfs.md"
POSTGRES: Final = "docs/postgres.md"
MOVE: Final = "docs/move.md"
LEAVE: Final = "docs/leave.md"
OPERATE: Final = "docs/operate.md"
HANDLES: Final = "docs/handles.md"
HOW_TO: Final = "docs/how-to.md"
OWN_SINK: Final = "docs/own-sink.md"

HOUSE, SPARK, START_TEST = "tests/house/test_snippets.py", "tests/docs/test_pipelines.py", "tests/docs/test_start.py"
DEPLOY_TEST: Final = "tests/contract/test_kubernetes_deploy.py"

KINDS: Final[Mapping[str, str]] = {
    "sh": HOUSE,  # its programs are known, its tenure commands are parsed, its make targets and pip extras are there
    "sh quarantine": "tests/docs/test_quarantine.py",  # typed while two members wait for an operator
    "sh back-export": "tests/docs/test_going_back.py",  # typed after a change that was wrong
    "sh back-adopt": "tests/docs/test_going_back.py",  # the same
    "toml": HOUSE,  # the settings load it
    "ini tenure.service": HOUSE,  # its ExecStart is a command, its exit codes are codes
    "yaml kustomization": DEPLOY_TEST,  # rendered, with the folder of the tree in the place of the clone's
    "python lead": HOUSE,  # run, with stand-ins for what it publishes
    "python pipeline": SPARK,  # loaded as a pipeline file, and its streams declared
    "python spark-job": SPARK,  # run until its input is read
    "python tested-pipeline": SPARK,  # saved under the name that the tests of the page import
    "python unit-test": SPARK,  # its tests are called
    "python own-sink": SPARK,  # saved under the name that the tests of the page import
    "python own-sink-tests": SPARK,  # its tests are called
    "python foreach-batch": SPARK,  # loaded, and its function called with a stand-in for the target
    "text diagram": HOUSE,  # narrow enough for a small screen
    "text demo": HOUSE,  # printed by the demo
}
"""Blocks of every page: what runs them."""

KINDS_OF_START: Final = ("install", "setup", "terminal-1", "terminal-2", "feed", "look", "kill", "result")
"""Roles of `sh` in the page that a test runs from its beginning to its end."""

KINDS_OF_KUBERNETES: Final = ("setup", "terminal-1", "terminal-2", "look", "kill", "pods")
"""Roles of `sh` in the page about Kubernetes. All but `pods` need KUBECONFIG and an API server, and run in the order of
the page; `pods` needs nodes that run pods, so it is parsed, and never run."""

KINDS_OF_S3: Final = ("sh", "sh environment", "sh member", "sh look", "text output")
"""Kinds of the page about S3. `tests/docs/test_s3.py` runs those with a role, against a server of its own."""

KINDS_OF_HDFS: Final = ("sh", "sh member", "sh look")
"""Kinds of the page about HDFS. `tests/docs/test_hdfs.py` runs those with a role, against servers of its own."""

KINDS_OF_KAFKA: Final = ("python kafka", "sh member", "sh look", "sh login")
"""Kinds of the page about Kafka. `tests/docs/test_kafka.py` runs them, against a broker of its own."""

KINDS_OF_POSTGRES: Final = ("sh", "python postgres", "sh environment", "sh member", "sql ledger")
"""Kinds of the page about PostgreSQL. `tests/docs/test_postgres.py` runs those with a role, against a server of its
own."""

KINDS_OF_MOVES: Final = ("sh adopt-look", "sh adopt", "sh pause", "sh export")
"""Kinds of the pages about moving in and out, beside those of every page. `tests/docs/test_moves.py` runs them."""


KINDS_OF_HANDLES: Final = ("python service", "python reader")
"""Kinds of the page about handles, beside those of every page. `tests/docs/test_handles.py` runs them."""


@dataclass(frozen=True)
class Block:
    """One fenced block. `role`: the second word behind the fence; empty: there is none."""

    page: str
    line: int
    language: str
    role: str
    text: str

    @property
    def kind(self) -> str:
        return f"{self.language} {self.role}".strip()

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> tuple[str, ...]:
    """README and all pages of docs, as paths from the root."""
    found = (str(path.relative_to(tree.ROOT)) for path in tree.files())
    return tuple(name for name in found if name == "README.md" or re.fullmatch(r"docs/[^/]+\.md", name))


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page, but the directives of Sphinx (`{toctree}`)."""
    text = (tree.ROOT / page).read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        language, _, role = match["info"].strip().partition(" ")
        if not language.startswith("{"):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(page, line, language, role.strip(), match["text"]))
    return found


def text_of(page: str, kind: str) -> str:
    """The text of the page's only block of this kind."""
    (found,) = [one.text for one in blocks_of(page) if one.kind == kind]
    return found.strip()


def all_blocks(*languages: str) -> list[Block]:
    """The blocks of all pages in these languages."""
    return [block for page in pages() for block in blocks_of(page) if block.language in languages]


def is_known(block: Block) -> bool:
    """Whether something runs it."""
    if block.page == START:
        if block.language == "sh":
            return block.role in ("", *KINDS_OF_START)
        if block.language == "text":
            return block.role.startswith("output-")
        return block.language == "python" and Path(block.role).suffix == ".py"
    if block.page == HDFS:
        return block.kind in KINDS_OF_HDFS
    if block.page == KAFKA:
        return block.kind in KINDS_OF_KAFKA
    if block.page == POSTGRES:
        return block.kind in KINDS_OF_POSTGRES
    if block.page in (MOVE, LEAVE) and block.kind in KINDS_OF_MOVES:
        return True
    if block.page == HANDLES and block.kind in KINDS_OF_HANDLES:
        return True
    if block.page == KUBERNETES and block.language == "sh":
        return block.role in KINDS_OF_KUBERNETES
    if block.page == S3:
        return block.kind in KINDS_OF_S3
    return block.kind in KINDS


def commands(text: str) -> Iterator[list[str]]:
    """The commands of a block, word by word: without comments, and without what a here-document holds."""
    joined = re.sub(r"\\\n", " ", text)
    joined = re.sub(r"<<(\w+)\n.*?^\1$", "", joined, flags=re.MULTILINE | re.DOTALL)
    for line in joined.splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield words


def inline_commands(page: str) -> list[str]:
    """The `tenure ...` in the sentences and tables of a page."""
    text = FENCE.sub("", (tree.ROOT / page).read_text(encoding="utf-8"))
    return INLINE.findall(text)
