"""An authority of one's own, and certificates that it signs, made by the `openssl` command in a folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from tenure.testing.servers import TlsFiles, need

_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


class Authority:
    """Signs certificates of servers on loopback."""

    def __init__(self, folder: Path, name: str) -> None:
        need(shutil.which("openssl"), "openssl", fix="install Debian's openssl")
        self._folder = folder
        self._key = folder / f"{name}.key"
        self.certificate: Final = folder / f"{name}.crt"
        files = ("-keyout", str(self._key), "-out", str(self.certificate))
        _openssl("req", "-x509", *_KEY, "-subj", f"/CN={name}", *files)

    def server(self) -> TlsFiles:
        """A certificate for 127.0.0.1, and for no name; and its key."""
        key, certificate = self._folder / "server.key", self._folder / "server.crt"
        signed = ("-CA", str(self.certificate), "-CAkey", str(self._key))
        names = ("-subj", "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1")
        _openssl("req", "-x509", *_KEY, *signed, *names, "-keyout", str(key), "-out", str(certificate))
        return TlsFiles(certificate=certificate, key=key, authority=self.certificate)


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, stdin=subprocess.DEVNULL)
