"""Renews the library that the page of `tenure ui` carries: uPlot, from npm's registry.

`python scripts/vendor.py` fetches the release that is named here and writes its files; the package must have the named
hash. A new release: change `RELEASE`, `INTEGRITY` (`npm view uplot@X dist.integrity`) and `FILES` (`--hashes` prints
them), and look at the page.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.request import urlopen

RELEASE: Final = "1.6.32"
URL: Final = f"https://registry.npmjs.org/uplot/-/uplot-{RELEASE}.tgz"
INTEGRITY: Final = "KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw=="
"""The SHA-512 of the package, as npm publishes it."""

FOLDER: Final = Path(__file__).resolve().parents[1] / "src" / "tenure" / "ui" / "static" / "vendor"
LICENSE: Final = "uPlot.LICENSE"


@dataclass(frozen=True, slots=True)
class Vendored:
    """One file. `of`: its path in the package."""

    of: str
    sha512: str


FILES: Final[Mapping[str, Vendored]] = {
    "uPlot.iife.min.js": Vendored(
        "package/dist/uPlot.iife.min.js",
        "jfm4wrxgq73ZXFzyYPRmgfQd7yYjtsH57SzfgjpieX4rgnfHAMAZJgQ1YLTsc6HOX+1tnGjnkFuerbc8oI2mJg==",
    ),
    "uPlot.min.css": Vendored(
        "package/dist/uPlot.min.css",
        "xXYYvGoPqOjhMwkpkxWTDv7HvlyrkyEqzc4USFr/ZtBYC7eklE3DNBDccqiMj2VzRKSffZzeqVRckdYzJx9qfQ==",
    ),
    LICENSE: Vendored(
        "package/LICENSE", "Jq1RNLJNonsKli9o1tenKiBqppxMs3bElPMv2IfNU0bXwymuiMyRl4UQgH45VJTBR1OXaDEt3+Q+WPH1O+DNVQ=="
    ),
}


def hash_of(content: bytes) -> str:
    """SHA-512, as npm writes it."""
    return base64.b64encode(hashlib.sha512(content).digest()).decode()


def fetched() -> Mapping[str, bytes]:
    """Name -> content of each file, of the published package. Raises ValueError: it is another package."""
    with urlopen(URL, timeout=60) as answer:
        package = answer.read()
    if hash_of(package) != INTEGRITY:
        raise ValueError(f"{URL} has the hash {hash_of(package)}, and {INTEGRITY} is wanted")
    found = {}
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        for name, one in FILES.items():
            member = archive.extractfile(one.of)
            assert member is not None, one.of
            found[name] = member.read()
    return found


def main() -> None:
    """Write the files, or print their hashes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hashes", action="store_true", help="print the hashes and write nothing")
    only_hashes = parser.parse_args().hashes
    for name, content in fetched().items():
        sys.stdout.write(f"{name} {hash_of(content)}\n")
        if not only_hashes:
            (FOLDER / name).write_bytes(content)


if __name__ == "__main__":
    main()
