"""What each Python process of a driver's JVM does at its start: it runs `sitecustomize.py` of this folder.

Promise: a JVM that starts with this path has this folder on the path of its Python processes, before your `PYTHONPATH`.
Not promised: executors in other JVMs, which have an environment of their own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
PYTHON_PATH: Final = "PYTHONPATH"
"""The variable with the path of a Python process."""


def python_path() -> str:
    """`PYTHONPATH` of a JVM whose Python processes have this folder on their path, and then yours."""
    return os.pathsep.join(filter(None, [str(FOLDER), os.environ.get(PYTHON_PATH)]))
