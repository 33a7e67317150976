"""OpenSSL 1.1, which the packaged mongod is linked against, from the Debian mirror that apt is set to."""

import re
import shutil
import urllib.request
from pathlib import Path

from hivemem_testing.packages import FetchError, cached, check_sha256, run

POOL_PATH = "pool/main/o/openssl/libssl1.1_1.1.1w-0+deb11u1_amd64.deb"
SHA256 = "aadf8b4b197335645b230c2839b4517aa444fd2e8f434e5438c48a18857988f7"
LIBRARIES = ("libssl.so.1.1", "libcrypto.so.1.1")
DOWNLOAD_TIMEOUT_SECONDS = 60


def openssl_libraries() -> Path:
    """Return the folder that holds the two libraries, fetched at the first call on this machine."""
    return cached(f"openssl-1.1.1w-{SHA256[:12]}", _fill)


def mirror(directory: Path) -> str:
    """Return the address of Debian's main archive from apt's configuration, without root or package lists."""
    if shutil.which("apt-get") is None:
        raise FetchError("mongod needs OpenSSL 1.1 from Debian, and there is no apt-get to name a mirror")
    listed = run(["apt-get", "update", "--print-uris"], directory)
    found = re.search(r"^'(https?://\S+/debian)/dists/", listed, re.MULTILINE)
    if found is None:
        raise FetchError("mongod needs OpenSSL 1.1 from Debian, and apt is set to no Debian mirror")
    return found.group(1)


def _fill(directory: Path) -> None:
    scratch = directory.parent
    package = scratch / "openssl.deb"
    address = f"{mirror(scratch)}/{POOL_PATH}"
    try:
        with (
            urllib.request.urlopen(address, timeout=DOWNLOAD_TIMEOUT_SECONDS) as source,
            package.open("wb") as output,
        ):
            shutil.copyfileobj(source, output)
    except OSError as error:
        raise FetchError(f"{POOL_PATH} cannot be had from the Debian mirror: {error}") from error
    check_sha256(package, SHA256)
    run(["dpkg-deb", "-x", str(package), str(scratch / "openssl")], scratch)
    for name in LIBRARIES:
        found = next((scratch / "openssl").rglob(name), None)
        if found is None:
            raise FetchError(f"{POOL_PATH} holds no {name}")
        found.rename(directory / name)
