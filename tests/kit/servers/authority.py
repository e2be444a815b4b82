"""An authority of one's own, and certificates that it signs, made by the `openssl` command in a folder.

Promise: a file is replaced in one step: a server that reads it again never reads half of it. Not promised: a server may
read a new certificate beside the old key, or the reverse, for a moment.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.kit.servers.process import TlsFiles
from tests.kit.servers.programs import need

_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


class Authority:
    """Signs certificates of servers on loopback. An authority of the same name replaces the authority before it."""

    def __init__(self, folder: Path, name: str) -> None:
        need(shutil.which("openssl"), "openssl", fix="install Debian's openssl")
        self._folder = folder
        self._key = folder / f"{name}.key"
        self.certificate: Final = folder / f"{name}.crt"
        _make(self._key, self.certificate, "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign")

    def server(self, names: Sequence[str] = ("IP:127.0.0.1",)) -> TlsFiles:
        """A certificate for these names and addresses alone, and its key. It replaces the certificate before it."""
        key, certificate = self._folder / "server.key", self._folder / "server.crt"
        signed = ("-CA", str(self.certificate), "-CAkey", str(self._key))
        kind = ("-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"subjectAltName={','.join(names)}")
        _make(key, certificate, *signed, "-subj", "/CN=server", *kind)
        return TlsFiles(certificate=certificate, key=key, authority=self.certificate)


def _make(key: Path, certificate: Path, *arguments: str) -> None:
    """Put a new key and its certificate in place of the files."""
    fresh = {path: path.with_name(f"{path.name}.new") for path in (key, certificate)}
    files = ("-keyout", str(fresh[key]), "-out", str(fresh[certificate]))
    command = ["openssl", "req", "-x509", *_KEY, *arguments, *files]
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    for path, made in fresh.items():
        made.replace(path)
