"""What each Python process of a driver's JVM does at its start: it runs `sitecustomize.py` of this folder.

Promise: a JVM that starts in the block has this folder on the path of its Python processes, before your `PYTHONPATH`.
Not promised: executors in other JVMs, which have an environment of their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
_PATH: Final = "PYTHONPATH"


@contextmanager
def on_python_path() -> Iterator[None]:
    """Processes that start in the block have this folder on the path of their Python."""
    before = os.environ.get(_PATH)
    os.environ[_PATH] = os.pathsep.join(filter(None, [str(FOLDER), before]))
    try:
        yield
    finally:
        if before is None:
            del os.environ[_PATH]
        else:
            os.environ[_PATH] = before
