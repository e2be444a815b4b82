"""Python imports this module at the start of each process whose path has this folder (see Python's module `site`).

Spark puts its `pyspark.zip` first on the path of its Python processes, and Python keeps no compiled files of a zip:
each process compiles PySpark anew. The process by which a query with `transformWithState` starts needs 1.3 s of
processor for that, and 0.4 s where it imports PySpark from a folder. Spark ends a query whose process is not up within
ten seconds: on a host of 2 cores with a load of 15, two of three such queries did not start within five minutes.

Promise: the zip leaves the path only where the next PySpark on the path came with it, so the code is the same: PyPI's
package has the zip inside, Spark's archive has it in the folder beside. This folder leaves the path as well, and the
`sitecustomize` that it hid runs.
"""

from __future__ import annotations  # an older Python, which a function of yours may start, runs this module, too

import os
import sys

_ZIPS = (os.path.join("pyspark", "python", "lib", "pyspark.zip"), os.path.join("lib", "pyspark.zip"))


def _without_zip(path: list[str]) -> list[str]:
    """The path without the zip that came with the PySpark which Python would import without zips."""
    holder = next((entry for entry in path if os.path.isfile(os.path.join(entry, "pyspark", "__init__.py"))), None)
    if holder is None:
        return path
    copies = [os.path.realpath(os.path.join(holder, copy)) for copy in _ZIPS]
    return [entry for entry in path if os.path.realpath(entry) not in copies]


def _run_the_hidden() -> None:
    """Import the `sitecustomize` that comes next on the path, as if this module were not there."""
    own = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
        sys.modules[__name__] = own


if __name__ == "sitecustomize":
    _own = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = _without_zip([entry for entry in sys.path if os.path.realpath(entry) != _own])
    _run_the_hidden()
