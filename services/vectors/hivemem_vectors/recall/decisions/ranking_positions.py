"""Positions between the pages of a recall.

A search returns a limited number of points, so its ranking ends. The pages of one search follow its ranking. After the
last of them, a deeper search goes on, without the items of the one before. So no item is on two pages, and none that
was found is left out, although a deeper search may find items with higher scores.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.vectors.requests import Recall
from hivemem_runtime.paging import Bookmark
from hivemem_vectors.recall.decisions.ranking import Ranked
from hivemem_vectors.stores.ports import POINTS_PER_CALL

POINTS_PER_ITEM: Final = 4
"""How many points are searched for each wanted item: several may belong to one item, or to an older version."""
FEWEST_POINTS: Final = 40
_ABOVE_ALL: Final = 2.0
"""A higher score than any."""
_OF_A_PAGE: Final = frozenset({"cursor", "limit", "max_tokens", "context", "explain", "wait_ms", "min_version"})
"""The fields that may differ from page to page."""


class RankingPosition(NamedTuple):
    """The beginning of a page: behind the item with this score and place, in the search of `points` points, without the
    items of the search of `before` points. The first search had `base` points. Ages are measured at `asked_at`."""

    asked_at: int
    base: int
    points: int
    before: int = 0
    score: float = _ABOVE_ALL
    place: str = ""

    @classmethod
    def first(cls, limit: int, now: int) -> "RankingPosition":
        points = min(max(POINTS_PER_ITEM * limit, FEWEST_POINTS), POINTS_PER_CALL)
        return cls(now, points, points)

    @property
    def again(self) -> "RankingPosition":
        """The beginning of a deeper search that replaces this one."""
        return self._replace(points=min(self.points * POINTS_PER_ITEM, POINTS_PER_CALL))

    def precedes(self, item: Ranked) -> bool:
        return (-item.score, item.piece.place) > (-self.score, self.place)

    def after(self, ranked: Sequence[Ranked], done: int, *, more: bool) -> "RankingPosition | None":
        """Return the position after the first items of this search, or None if nothing follows. With `more`, a deeper
        search may find more."""
        if done < len(ranked):
            last = ranked[done - 1] if done else None
            return self if last is None else self._replace(score=last.score, place=last.piece.place)
        return RankingPosition(self.asked_at, self.base, self.again.points, self.points) if more else None


def cursor_at(body: Recall, position: RankingPosition) -> str:
    return _bookmark(body).put(*position)


def position_of(body: Recall, cursor: str) -> RankingPosition:
    """Return the position of a cursor. Raises `InvalidRequest` for the cursor of another question."""
    position = RankingPosition(*_bookmark(body).find(cursor, int, int, int, int, float, str))
    if not (1 <= position.base <= position.points <= POINTS_PER_CALL and 0 <= position.before < position.points):
        raise InvalidRequest("cursor: it is not one of ours", field="cursor")
    return position


def _bookmark(body: Recall) -> Bookmark:
    return Bookmark("recall", body.model_dump(mode="json", exclude=set(_OF_A_PAGE)))
