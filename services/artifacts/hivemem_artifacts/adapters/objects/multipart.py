"""Making one object of others, on the server: its parts are copied side by side, and put together in the end."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree

from minio.datatypes import parse_copy_object
from minio.xml import findtext

from hivemem_artifacts.adapters.objects.errors import translated
from hivemem_artifacts.adapters.objects.requests import Requests
from hivemem_artifacts.adapters.threads import Threads
from hivemem_contracts.errors import HiveError

PART_BYTES: Final = 64 * 1024 * 1024
"""The most that is copied within one call, and so within the time that the store may be silent."""


COPIES_AT_ONCE: Final = 4


class Part(NamedTuple):
    """A range of an object, whose bytes are those of the `etag`."""

    key: str
    etag: str
    offset: int
    size: int


class Joining:
    """One object that is being put together; it is not there before `finish` returns. Each call blocks."""

    def __init__(self, requests: Requests, bucket: str, key: str) -> None:
        self._requests = requests
        self._bucket = bucket
        self._key = key
        response = requests.send("POST", key, query={"uploads": ""})
        self._id = findtext(ElementTree.fromstring(response.data), "UploadId", True) or ""  # noqa: S314  # our store's

    def copy(self, number: int, part: Part) -> str:
        """The etag of the part of that number, from 1 on."""
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
    """A whole object, in ranges that are copied in one call each."""
    return [Part(key, etag, offset, min(PART_BYTES, size - offset)) for offset in range(0, size, PART_BYTES)]


async def copied(threads: Threads, joining: Joining, parts: Sequence[Part]) -> None:
    """Copy the parts, a few at a time, and put them together; nothing is left behind of what failed."""
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
