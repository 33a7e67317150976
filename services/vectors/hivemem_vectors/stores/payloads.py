"""The fields that every adapter keeps of a point besides its values, and the names of its two vectors."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from hivemem_vectors.stores.ports import Hit, Point, StoredPoint

TENANT: Final = "tenant"
ID: Final = "id"
DENSE: Final = "dense"
SPARSE: Final = "sparse"


def point_key(tenant: str, id: str) -> str:
    """Return the UUID under which a store keeps a point. It is a hash, so that any text can be an id."""
    text = f"{len(tenant)}:{tenant}{id}".encode("utf-8", "surrogatepass")
    return str(UUID(bytes=hashlib.blake2b(text, digest_size=16).digest()))


def payload_of(point: Point) -> dict[str, Any]:
    return {**point.values, TENANT: point.tenant, ID: point.id}


def stored_point(payload: Mapping[str, Any]) -> StoredPoint:
    return StoredPoint(payload[TENANT], payload[ID], _values(payload))


def hit_of(key: str, score: float, payload: Mapping[str, Any]) -> Hit:
    """Return a hit; `payload` is empty for a search by keys only."""
    return Hit(key, score, payload[ID], _values(payload)) if payload else Hit(key, score)


def _values(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if name not in (ID, TENANT)}
