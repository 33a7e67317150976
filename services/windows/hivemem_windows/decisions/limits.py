"""The limits of a window, as its resource declares them."""

from dataclasses import dataclass
from functools import lru_cache
from math import floor
from typing import Final

from hivemem_contracts.limits import WINDOW_MESSAGES
from hivemem_contracts.windows.models import WindowResource

LARGEST_SUMMARY_TOKENS: Final = 1_000
SMALLEST_SUMMARY_TOKENS: Final = 16
DEFAULT_THRESHOLD: Final = 0.8
KEPT_BESIDE_A_SUMMARY: Final = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """What a window may hold. `shares` limits the shares that lend to `short_term`; empty without an allocation."""

    max_tokens: int | None
    max_messages: int
    shares: dict[str, int]
    eviction: str
    summary_tokens: int

    def of_share(self, share: str) -> int | None:
        """Return the most tokens that one message of a share can have."""
        if share in self.shares or self.max_tokens is None:
            return self.shares.get(share)
        return self.max_tokens


def limits_of(resource: WindowResource) -> Limits:
    limit, allocation = resource.max_tokens, resource.allocation
    shares: dict[str, int] = {}
    if allocation is not None and limit is not None:
        # A product of fractions may be a hair below the integer that it means.
        shares = {
            "system": floor(allocation.system * limit + 1e-6),
            "long_term": floor(allocation.long_term * limit + 1e-6),
        }
    asked = None if resource.flushing is None else resource.flushing.summary_tokens
    summary = LARGEST_SUMMARY_TOKENS if limit is None else min(LARGEST_SUMMARY_TOKENS, limit // 8)
    return Limits(
        limit,
        resource.max_messages or WINDOW_MESSAGES,
        shares,
        resource.eviction,
        max(SMALLEST_SUMMARY_TOKENS, summary) if asked is None else asked,
    )


@lru_cache(maxsize=1024)
def parsed_resource(declared: bytes) -> WindowResource:
    """Return a stored resource."""
    return WindowResource.model_validate_json(declared)
