"""Multipart uploads that join existing objects on the server. Parts are copied in parallel and then completed."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree

from minio.datatypes import parse_copy_object
from minio.xml import findtext

from hivemem_artifacts.adapters.objects.errors import translated
from hivemem_artifacts.adapters.objects.signed_requests import SignedRequests
from hivemem_artifacts.adapters.threads import Threads
from hivemem_contracts.errors import HiveError

PART_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of a part, so that one copy fits within the read timeout."""


COPIES_AT_ONCE: Final = 4


class Part(NamedTuple):
    """A range of an object with a known etag."""

    key: str
    etag: str
    offset: int
    size: int


class MultipartUpload:
    """A multipart upload. The object appears when `finish` returns. All calls block."""

    def __init__(self, requests: SignedRequests, bucket: str, key: str) -> None:
        self._requests = requests
        self._bucket = bucket
        self._key = key
        response = requests.send("POST", key, query={"uploads": ""})
        self._id = findtext(ElementTree.fromstring(response.data), "UploadId", True) or ""  # noqa: S314  # our store's

    def copy(self, number: int, part: Part) -> str:
        """Copy a part under its number, starting with 1, and return its etag."""
        headers = {
            "x-amz-copy-source": quote(f"/{self._bucket}/{part.key}"),
            "x-amz-copy-source-if-match": f'"{part.etag}"',
            "x-amz-copy-source-range": f"bytes={part.offset}-{part.offset + part.size - 1}",
        }
        with translated():
            response = self._requests.send("PUT", self._key, query=self._query(number), headers=headers)
            return parse_copy_object(response)[0]

    def finish(self, etags: Sequence[str]) -> None:
        root = ElementTree.Element("CompleteMultipartUpload")
        for number, etag in enumerate(etags, 1):
            part = ElementTree.SubElement(root, "Part")
            ElementTree.SubElement(part, "PartNumber").text = str(number)
            ElementTree.SubElement(part, "ETag").text = f'"{etag}"'
        with translated():
            self._requests.send("POST", self._key, query=self._query(), body=[ElementTree.tostring(root)])

    def abandon(self) -> None:
        with translated():
            self._requests.send("DELETE", self._key, query=self._query())

    def _query(self, number: int | None = None) -> dict[str, str]:
        return {"uploadId": self._id} | ({"partNumber": str(number)} if number else {})


def parts_of(key: str, etag: str, size: int) -> list[Part]:
    """Return the parts of a whole object, each small enough for one copy."""
    return [Part(key, etag, offset, min(PART_BYTES, size - offset)) for offset in range(0, size, PART_BYTES)]


async def copied(threads: Threads, joining: MultipartUpload, parts: Sequence[Part]) -> None:
    """Copy the parts in parallel and complete the upload. On failure the upload is aborted."""
    etags = [""] * len(parts)
    left = iter(enumerate(parts))

    async def copy() -> None:
        for number, part in left:
            etags[number] = await threads.run(joining.copy, number + 1, part)

    try:
        async with asyncio.TaskGroup() as copying:
            for _ in range(COPIES_AT_ONCE):
                copying.create_task(copy())
        await threads.run(joining.finish, etags)
    except* HiveError as failed:
        with suppress(HiveError):
            await threads.run(joining.abandon)
        raise failed.exceptions[0] from None
