"""Signed S3 requests with an unsigned payload, so that bytes are hashed only once, on arrival.

The client library does this only over TLS. The store verifies a CRC-32 checksum instead.
"""

import binascii
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qs, quote, urlencode, urlsplit, urlunsplit

from minio import Minio
from minio.credentials.credentials import Credentials
from minio.error import InvalidResponseError, S3Error
from minio.signer import sign_v4_s3
from minio.time import to_amz_date
from urllib3 import BaseHTTPResponse, PoolManager

_UNSIGNED: Final = "UNSIGNED-PAYLOAD"
_PROBE: Final = "region"


class _Place(NamedTuple):
    """The address of the bucket."""

    url: SplitResult
    region: str


class SignedRequests:
    """Sends requests for the objects of one bucket. Raises errors of the client library."""

    def __init__(self, client: Minio, pool: PoolManager, credentials: Credentials, bucket: str) -> None:
        self._client = client
        self._pool = pool
        self._credentials = credentials
        self._bucket = bucket
        self._known: _Place | None = None

    @property
    def region(self) -> str:
        return self._place().region

    def send(
        self,
        method: str,
        key: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Sequence[bytes] = (),
    ) -> BaseHTTPResponse:
        """Send a request and return the successful response."""
        place, now = self._place(), datetime.now(UTC)
        url = place.url._replace(path=place.url.path + quote(key), query=urlencode(query or {}))
        plain: dict[str, str | list[str] | tuple[str]] = {
            **(headers or {}),
            "Host": url.netloc,
            "Content-Length": str(sum(map(len, body))),
            "x-amz-content-sha256": _UNSIGNED,
            "x-amz-date": to_amz_date(now),
        }
        signed = sign_v4_s3(
            method=method,
            url=url,
            region=place.region,
            headers=plain,
            credentials=self._credentials,
            content_sha256=_UNSIGNED,
            date=now,
        )
        plainly = {name: str(value) for name, value in signed.items()}
        return _checked(self._pool.request(method, urlunsplit(url), body=body, headers=plainly))

    def _place(self) -> _Place:
        """Return the bucket's URL and region. Both are taken from a signed URL of the client library."""
        if self._known is None:
            url = urlsplit(self._client.presigned_get_object(self._bucket, _PROBE))
            region = parse_qs(url.query)["X-Amz-Credential"][0].split("/")[-3]
            self._known = _Place(url._replace(path=url.path.removesuffix(_PROBE), query=""), region)
        return self._known


def checksum(body: Sequence[bytes]) -> str:
    """Return a CRC-32 as S3 encodes it."""
    crc = 0
    for piece in body:
        crc = binascii.crc32(piece, crc)
    return b64encode(crc.to_bytes(4, "big")).decode()


def _checked(response: BaseHTTPResponse) -> BaseHTTPResponse:
    # A completed multipart upload may report an error in a response that began as a success.
    if response.status in (200, 204) and b"<Error>" not in response.data[:200]:
        return response
    kind = response.headers.get("content-type", "")
    if "application/xml" not in kind or not response.data:
        raise InvalidResponseError(response.status, kind, response.data.decode(errors="replace"))
    raise S3Error.fromxml(response)
