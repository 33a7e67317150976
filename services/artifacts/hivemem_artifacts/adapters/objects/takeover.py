"""Takeover of a staged upload, which excludes all earlier holders.

Each holder puts segments under its own prefix. A takeover writes a claim, which lists the segments to continue from and
whose name sorts after all earlier claims. Segments that an earlier holder puts later are in no later claim.
"""

import secrets
from typing import Final, NamedTuple

import orjson

from hivemem_artifacts.adapters.objects.bucket import Bucket, StoredObject
from hivemem_artifacts.adapters.objects.keys import claims_prefix, holder_prefix, segment_offset
from hivemem_artifacts.ports import PIECE_BYTES

SEGMENT_BYTES: Final = PIECE_BYTES
"""The size of a segment. One fills while the previous one is put. S3 requires parts of at least 5 MiB, except the
last."""


class TakenStaging(NamedTuple):
    """The new holder and the staged segments in order. Only the last one may be short."""

    holder: str
    segments: list[StoredObject]


def take_over(bucket: Bucket, upload_id: str) -> TakenStaging:
    newest = holder_of(bucket, upload_id)
    segments = _staged(bucket, upload_id, newest) if newest else []
    number = int(newest.partition("-")[0], 16) + 1 if newest else 1
    holder = f"{number:08x}-{secrets.token_hex(8)}"
    _claim(bucket, upload_id, holder, segments)
    # The earlier holder may have reported more durable bytes before it could see the claim.
    if newest and (later := _staged(bucket, upload_id, newest)) != segments:
        _claim(bucket, upload_id, holder, segments := later)
    return TakenStaging(holder, segments)


def _claim(bucket: Bucket, upload_id: str, holder: str, segments: list[StoredObject]) -> None:
    bucket.put(claims_prefix(upload_id) + holder, [orjson.dumps([tuple(segment) for segment in segments])])


def holder_of(bucket: Bucket, upload_id: str) -> str | None:
    """Return the newest holder, or None for a discarded upload."""
    prefix = claims_prefix(upload_id)
    return max((found.key.removeprefix(prefix) for found in bucket.objects(prefix)), default=None)


def _staged(bucket: Bucket, upload_id: str, holder: str) -> list[StoredObject]:
    """Return the contiguous segments of a holder: its claim and its own objects, the longest at each offset."""
    claim = orjson.loads(bucket.whole(claims_prefix(upload_id) + holder))
    found = [StoredObject(*segment) for segment in claim]
    found += bucket.objects(holder_prefix(upload_id, holder))
    longest: dict[int, StoredObject] = {}
    for segment in sorted(found, key=lambda segment: segment.size):
        longest[segment_offset(segment.key)] = segment
    chain: list[StoredObject] = []
    while (following := longest.get(len(chain) * SEGMENT_BYTES)) is not None:
        chain.append(following)
        if following.size < SEGMENT_BYTES:
            break
    return chain
