"""One module of the product knows that Spark has releases."""

from __future__ import annotations

import re

from tests.house import tree

KEEPER = "src/tenure/spark/releases.py"
OF_A_VERSION = re.compile(r"""pyspark\.__version__|version\(["']pyspark["']\)|\bbefore\(["']\d""")
OF_ONE_RELEASE = re.compile(
    r"streaming\.(?:checkpointing|runtime|operators)\b|sql\.classic\b|pyspark\.logger|getCondition|getErrorClass"
    r"|sourceIdentifyingName|ArraySeq|TransformWithStateIn|checkAndGlobPath"
)
"""Names of classes, packages and methods that some release does not have, or has elsewhere."""


def places(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{module}: {match[0]}"
        for module in tree.modules()
        if str(module).startswith("src/") and str(module) != KEEPER
        for match in pattern.finditer(module.text)
    ]


def test_no_other_module_asks_which_release_it_is() -> None:
    assert places(OF_A_VERSION) == []


def test_no_other_module_names_what_some_release_does_not_have() -> None:
    assert places(OF_ONE_RELEASE) == []
