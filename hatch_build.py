"""Makes the Python modules of etcd's messages and services when the package is built or installed from the tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROTO = "tenure/backends/etcd/etcd.proto"


class Stubs(BuildHookInterface[Any]):
    """Runs protoc, as grpcio-tools brings it, on the one file of the tree."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write `etcd_pb2.py` and `etcd_pb2_grpc.py` beside the file that they come from."""
        from grpc_tools import protoc

        source = Path(self.root) / "src"
        flags = [f"--proto_path={source}", f"--python_out={source}", f"--grpc_python_out={source}"]
        if protoc.main(["protoc", *flags, str(source / PROTO)]) != 0:
            raise RuntimeError(f"protoc cannot make the stubs of {PROTO}")
        made = [f"src/{PROTO.removesuffix('.proto')}_{kind}.py" for kind in ("pb2", "pb2_grpc")]
        build_data.setdefault("artifacts", []).extend(made)
