"""The ways in which recall is measured, and their peers."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Layout = Literal["memories", "events"]
"""Each turn is a memory of its own, or an event of its session."""


@dataclass(frozen=True)
class Way:
    name: str
    title: str
    layout: Layout
    fields: Mapping[str, Any]
    """The fields of the request."""


_ASKED: Final[Mapping[str, Mapping[str, Any]]] = {
    "meaning alone": {"weights": {"dense": 1.0}},
    "words alone": {"weights": {"dense": 0.0}},
    "both, the default": {},
    "both, with context": {"context": 1},
    "both, reranked": {"rerank": True},
}
_LAYOUTS: Final[Mapping[Layout, str]] = {"memories": "each turn a memory", "events": "turns as events"}

BM25: Final = "bm25"
LANGGRAPH: Final = "langgraph"
PEERS: Final = {BM25: "BM25 (bm25s), stemmed, without stop words", LANGGRAPH: "LangGraph's store, the same embedder"}

WAYS: Final = tuple(
    Way(f"{layout}: {asked}", f"{title}: {asked}", layout, fields)
    for layout, title in _LAYOUTS.items()
    for asked, fields in _ASKED.items()
    if (layout == "events" or "context" not in fields)
    and ("rerank" not in fields or os.environ.get("HIVEMEM_RERANKER", "none") != "none")
)
TITLES: Final = {way.name: way.title for way in WAYS} | PEERS
