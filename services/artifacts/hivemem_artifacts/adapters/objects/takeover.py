"""Taking over what is staged of an upload, so that nobody else can change it.

Each holder puts its segments under a prefix of its own. Who takes over writes a claim: which segments it goes on from,
and by its name that it comes after all others. What an earlier holder puts after that is in no later one's claim.
"""

import secrets
from typing import Final, NamedTuple

import orjson

from hivemem_artifacts.adapters.objects.bucket import Bucket, StoredObject
from hivemem_artifacts.adapters.objects.keys import claims_prefix, holder_prefix, segment_offset
from hivemem_artifacts.ports import PIECE_BYTES

SEGMENT_BYTES: Final = PIECE_BYTES
"""One fills while the one before is put. S3 joins parts of 5 MiB or more, and any last one."""


class Taken(NamedTuple):
    """Who holds the upload now, and the segments from the start on; only the last one may be short."""

    holder: str
    segments: list[StoredObject]


def take_over(bucket: Bucket, upload_id: str) -> Taken:
    newest = holder_of(bucket, upload_id)
    segments = _staged(bucket, upload_id, newest) if newest else []
    number = int(newest.partition("-")[0], 16) + 1 if newest else 1
    holder = f"{number:08x}-{secrets.token_hex(8)}"
    _claim(bucket, upload_id, holder, segments)
    # Until it could see the claim, the earlier holder may have told of more that is durable.
    if newest and (later := _staged(bucket, upload_id, newest)) != segments:
        _claim(bucket, upload_id, holder, segments := later)
    return Taken(holder, segments)


def _claim(bucket: Bucket, upload_id: str, holder: str, segments: list[StoredObject]) -> None:
    bucket.put(claims_prefix(upload_id) + holder, [orjson.dumps([tuple(segment) for segment in segments])])


def holder_of(bucket: Bucket, upload_id: str) -> str | None:
    """Who came last; nobody has an upload that is discarded."""
    prefix = claims_prefix(upload_id)
    return max((found.key.removeprefix(prefix) for found in bucket.objects(prefix)), default=None)


def _staged(bucket: Bucket, upload_id: str, holder: str) -> list[StoredObject]:
    """What the holder found and what it added: the longest segment of each place, for as long as they follow."""
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
