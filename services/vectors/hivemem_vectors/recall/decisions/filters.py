"""The filters of a recall: as conditions of the store, and as the same check on an item's own fields."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, get_args

from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_contracts.memory.models import MemoryType
from hivemem_contracts.vectors.models import ItemKind, RecallFilter
from hivemem_contracts.vectors.requests import Recall
from hivemem_runtime.ledger.places import below
from hivemem_vectors.pipeline.decisions.keywords import AskedWord, asked_words, words
from hivemem_vectors.pipeline.decisions.points import EVENT, metadata_word, metadata_words, scope_words, value_words
from hivemem_vectors.pipeline.entities import is_event, session_of
from hivemem_vectors.recall.decisions.periods import Period, periods_of
from hivemem_vectors.stores.ports import Between, Condition, Equal, OneOf

ALL_KINDS: Final[frozenset[ItemKind]] = frozenset(get_args(ItemKind))
_FOR_TIME: Final = re.compile(r"\s*(?:when|how long|what (?:date|year|month|day|time))\b", re.IGNORECASE)

_EXACT: Final = 2**53
"""Stores compare larger times inexactly. A bound past it is relaxed, never tightened."""


@dataclass(frozen=True, slots=True)
class Question:
    """A recall without the vector of its query. Times are microseconds since 1970; `now` decides what has expired. A
    filter that is None lets everything pass."""

    now: int
    prefix: str | None = None
    memory_type: str | None = None
    created_by: str | None = None
    updated_after: int | None = None
    updated_before: int | None = None
    valid_at: int | None = None
    min_importance: float | None = None
    metadata: tuple[str, ...] = ()
    """Words of `metadata_word`."""
    tenant: str = ""
    limit: int = 1
    kinds: frozenset[ItemKind] = ALL_KINDS
    sessions: frozenset[str] | None = None
    scope: tuple[str, ...] = ()
    """Words of `scope_words`."""
    text: str = ""
    asked: tuple[AskedWord, ...] = ()
    is_for_time: bool = False
    """Whether it asks when something was."""
    periods: tuple[Period, ...] = ()
    """The periods that it names."""
    where: tuple[str, ...] = ()
    """Words of `value_words`."""
    worths: Mapping[int, float] | None = None
    """What each form of the words is worth, if the answer explains its scores."""

    @classmethod
    def of(cls, tenant: str, body: Recall, now: int) -> "Question":
        filters = body.filter or RecallFilter()
        return cls(
            now,
            body.namespace_prefix,
            body.memory_type,
            filters.created_by,
            _moment(filters.updated_after),
            _moment(filters.updated_before),
            _moment(filters.valid_at),
            filters.min_importance,
            tuple([metadata_word(name, value) for name, value in (filters.metadata or {}).items()]),
            tenant,
            body.limit,
            ALL_KINDS if body.kinds is None else frozenset(body.kinds),
            None if body.session_ids is None else frozenset(body.session_ids),
            tuple(scope_words(body.user_id, body.app_name, body.project_id)),
            body.query,
            tuple(asked_words(body.query)),
            _FOR_TIME.match(body.query) is not None,
            periods_of(body.query, now),
            tuple(value_words(filters.where or {})),
        )

    def names(self, author: str) -> bool:
        """Return whether the question names the author of an event."""
        name = _words_of(author)
        return bool(name) and name <= _words_of(self.text)

    def conditions(self, *, unexpired: bool = False) -> list[Condition]:
        """Return the conditions for the store; `holds` has the last word.

        `unexpired` is optional because this condition alone takes the store as long as the search itself, and hardly
        ever leaves anything out."""
        equals = (("below", self.prefix), ("memory_type", self.memory_type), ("created_by", self.created_by))
        found: list[Condition | None] = [Equal(field, value) for field, value in equals if value is not None]
        found += [Equal("metadata", word) for word in self.metadata]
        found += [Equal("value", word) for word in self.where]
        found += [Equal("scope", word) for word in self.scope]
        if self.sessions is not None:
            found.append(OneOf("session", sorted(self.sessions)))
        if "memory" not in self.kinds:
            found.append(Equal("kind", EVENT))
        if "event" not in self.kinds:
            found.append(OneOf("memory_type", get_args(MemoryType)))
        found.append(_between("updated_at", above=self.updated_after, below=self.updated_before))
        if self.valid_at is not None:
            found.append(_between("valid_from", at_most=self.valid_at, or_missing=True))
            found.append(_between("valid_to", above=self.valid_at, or_missing=True))
        if self.min_importance is not None:
            found.append(Between("importance", at_least=self.min_importance))
        if unexpired:
            found.append(_between("expires_at", above=self.now, or_missing=True))
        return [condition for condition in found if condition is not None]

    def holds(self, place: str, fields: Mapping[str, Any]) -> bool:
        """Return whether an item below the prefix passes, given its place and the fields of its mirror."""
        return (
            self._holds_of_kind(place, fields)
            and (self.memory_type is None or fields.get("memory_type") == self.memory_type)
            and (self.created_by is None or fields.get("created_by") == self.created_by)
            and self._holds_in_time(fields)
            and (self.min_importance is None or _at_least(fields.get("importance"), self.min_importance))
            and (not self.metadata or set(self.metadata).issubset(metadata_words(fields.get("metadata", {}))))
            and (not self.where or set(self.where).issubset(value_words(fields.get("value", {}))))
        )

    def _holds_of_kind(self, place: str, fields: Mapping[str, Any]) -> bool:
        if not is_event(place):
            return "memory" in self.kinds and self.sessions is None and not self.scope
        return (
            "event" in self.kinds
            and (self.sessions is None or session_of(place) in self.sessions)
            and set(self.scope).issubset(fields.get("scope", ()))
        )

    def _holds_in_time(self, fields: Mapping[str, Any]) -> bool:
        updated_at = fields["updated_at"]
        return (
            not expired(fields, self.now)
            and (self.updated_after is None or updated_at > self.updated_after)
            and (self.updated_before is None or updated_at < self.updated_before)
            and (self.valid_at is None or _valid(fields, self.valid_at))
        )


def range_below(prefix: str | None) -> tuple[str | None, str | None]:
    """Return the range of places below a prefix; without one, of all places."""
    return (None, None) if prefix is None else below(prefix)


def expired(fields: Mapping[str, Any], now: int) -> bool:
    """Return whether an item has expired, given the fields of its mirror or the values of its point."""
    expires_at = fields.get("expires_at")
    return expires_at is not None and expires_at <= now


def _at_least(importance: float | None, least: float) -> bool:
    return importance is not None and importance >= least


def _valid(fields: Mapping[str, Any], at: int) -> bool:
    start, end = fields.get("valid_from"), fields.get("valid_to")
    return (start is None or start <= at) and (end is None or at < end)


@lru_cache(maxsize=1_024)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(words(text))


def _moment(moment: datetime | None) -> int | None:
    return None if moment is None else microseconds_from_time(moment)


def _between(
    field: str,
    *,
    above: int | None = None,
    at_most: int | None = None,
    below: int | None = None,
    or_missing: bool = False,
) -> Condition | None:
    """Return a condition with the given bounds, or None if no bound is left."""
    lower = None if above is None or above < -_EXACT else min(above, _EXACT)
    until, before = (None if bound is None or bound > _EXACT else max(bound, -_EXACT) for bound in (at_most, below))
    if lower is None and until is None and before is None:
        return None
    return Between(field, above=lower, at_most=until, below=before, or_missing=or_missing)
