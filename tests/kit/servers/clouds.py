"""Emulators of two object stores on loopback: fake-gcs-server for Google's, Azurite for Azure's (`scripts/setup.sh
cloud`).

Promise: `start` returns when `BUCKET` can be written to. Not promised: that the real services answer as these do.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tests.kit.process import GroupProcess
from tests.kit.servers.process import Servers, free_ports
from tests.kit.servers.programs import need, program
from tests.kit.waiting import NEVER_S

BUCKET: Final = "pipelines"
ACCOUNT: Final = "tenuretests"
HOST: Final = f"{ACCOUNT}.dfs.core.windows.net"
"""Of the account in a URL; the connection string says where it is."""
_KEY: Final = base64.b64encode(b"of the tests").decode()
_PROGRAMS: Final = Path(__file__).resolve().parents[3] / ".venv" / "cloud"
_FIX: Final = "run sh scripts/setup.sh cloud"


def _program(name: str, what: str, folder: str) -> str:
    built = _PROGRAMS / folder / name
    return program(name, what, fix=_FIX, built=str(built) if built.exists() else None)


class FakeGcs(Servers):
    """One server; data and log go below `folder`."""

    def __init__(self, folder: Path) -> None:
        need(find_spec("gcsfs"), "gcsfs", fix=_FIX)
        (self.port,) = free_ports(1)
        self.url: Final = f"http://127.0.0.1:{self.port}"
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            _program("fake-gcs-server", "fake-gcs-server", "bin"),
            *("-scheme", "http", "-host", "127.0.0.1", "-port", str(self.port), "-log-level", "warn"),
            *("-backend", "filesystem", "-filesystem-root", str(folder / "data")),
            *("-external-url", self.url, "-public-host", f"127.0.0.1:{self.port}"),
        ]
        self.nodes = (GroupProcess(command, log=folder / "log"),)

    def answers(self, number: int) -> bool:
        """Whether the bucket is there."""
        body = json.dumps({"name": BUCKET}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/storage/v1/b?project=tests", data=body, headers=headers)
        try:
            urllib.request.urlopen(request, timeout=NEVER_S).close()
        except urllib.error.HTTPError as error:
            return error.code == 409  # it is there already
        except OSError:
            return False
        return True

    def environment(self, url: str | None = None) -> Mapping[str, str]:
        """The environment with which Google's clients reach the server. `url`: of a gate before the server."""
        return {"STORAGE_EMULATOR_HOST": url or self.url}


class Azurite(Servers):
    """One server; data and log go below `folder`. A server that is killed loses the changes of the last seconds."""

    def __init__(self, folder: Path) -> None:
        need(find_spec("adlfs"), "adlfs", fix=_FIX)
        (self.port,) = free_ports(1)
        self.url: Final = f"http://127.0.0.1:{self.port}"
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            _program("azurite-blob", "Azurite", "node_modules/.bin"),
            *("--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--location", str(folder / "data")),
            *("--silent", "--disableTelemetry", "--skipApiVersionCheck"),
        ]
        accounts = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{_KEY}"}
        self.nodes = (GroupProcess(command, log=folder / "log", environment=accounts),)

    def answers(self, number: int) -> bool:
        """Whether the container is there."""
        from azure.core.exceptions import AzureError, ResourceExistsError
        from azure.storage.blob import ContainerClient

        with ContainerClient.from_connection_string(self._connection(self.url), BUCKET, retry_total=0) as client:
            try:
                client.create_container()
            except ResourceExistsError:
                return True
            except AzureError:
                return False
        return True

    def environment(self, url: str | None = None) -> Mapping[str, str]:
        """The environment with which Azure's clients reach the server. `url`: of a gate before the server."""
        return {"AZURE_STORAGE_CONNECTION_STRING": self._connection(url or self.url)}

    def _connection(self, url: str) -> str:
        return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={_KEY};BlobEndpoint={url}/{ACCOUNT};"
