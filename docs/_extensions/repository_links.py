"""Links to files of the repository that are no pages, as `[text](../FILE)`.

Promise: a page reads well in a repository browser, which follows such a link, and on the site, which has no such file:
there the text is followed by the file's name. `tests/house/test_documents.py` checks that the files exist.
"""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)#]+)[^)]*\)")


def name_files(sphinx: Any, page: str, source: list[str]) -> None:
    """Put the name of a file in the place of a link to it."""
    source[0] = OUTSIDE.sub(
        lambda link: f"`{link[2]}`" if link[1] == link[2] else f"{link[1]} (`{link[2]}`)", source[0]
    )


def setup(sphinx: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    sphinx.connect("source-read", name_files)
    return {"parallel_read_safe": True}
