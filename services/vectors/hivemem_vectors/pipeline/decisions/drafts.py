"""A version of an item on its way into the index: its chunks, their embeddings, and its points."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from semantic_text_splitter import MarkdownSplitter, TextSplitter

from hivemem_vectors.embedders.ports import Embeddings
from hivemem_vectors.pipeline.decisions.changes import Told
from hivemem_vectors.pipeline.decisions.item_states import Failure, Outcome
from hivemem_vectors.pipeline.decisions.points import points_of
from hivemem_vectors.pipeline.entities import Item, Mirror, packed, unpacked
from hivemem_vectors.stores.ports import POINTS_PER_CALL, Point

CHUNK_TOKENS: Final = 200
"""Well under what the model reads at once: of a longer piece the meaning is blurred."""

OVERLAP_TOKENS: Final = 20
CHUNKS_PER_TEXT: Final = 2_000
"""More than the longest text of one memory gives in any language written with letters; what is past it is left out."""

_CHARACTERS_PER_TOKEN: Final = 8
"""Tokenizers take a long run of letters for one unknown word: it counts as at least one token in so many characters."""

_MARKDOWN: Final = re.compile(r"^(?:#{1,6} \S|```|[-*+] \S.*\n[-*+] \S|\|.+\|\s*$|\d+\. \S.*\n\d+\. \S)", re.MULTILINE)

CountTokens = Callable[[str], int]


class Chunk(NamedTuple):
    """A piece of a text and the character at which it begins there."""

    start: int
    text: str


class Chunker:
    """Cuts texts into chunks of at most `tokens`, by the count of the model they are for. The same text always gives
    the same chunks, and every character that is no white space is in one of them, up to `CHUNKS_PER_TEXT`."""

    def __init__(self, count: CountTokens, *, tokens: int = CHUNK_TOKENS, overlap: int = OVERLAP_TOKENS) -> None:
        def size(text: str) -> int:
            return max(count(text), -(-len(text) // _CHARACTERS_PER_TOKEN))

        self._size = size
        self._tokens = tokens
        self._plain = TextSplitter.from_callback(size, tokens, overlap)
        self._markdown = MarkdownSplitter.from_callback(size, tokens, overlap)

    def chunks(self, text: str) -> list[Chunk]:
        """In order; none for a text without a visible character."""
        stripped = text.strip()
        if not stripped:
            return []
        # No token is shorter than a character: most memories need no counting at all.
        if len(stripped) <= self._tokens or self._size(stripped) <= self._tokens:
            return [Chunk(text.index(stripped), stripped)]
        splitter = self._markdown if _MARKDOWN.search(text) else self._plain
        return [Chunk(start, piece) for start, piece in splitter.chunk_indices(text)][:CHUNKS_PER_TEXT]


ITEMS_PER_GROUP: Final = 100
"""So many go together: into one call of the embedder, one of the store and one write."""

CHARACTERS_PER_PART: Final = 500_000
"""Of the texts that are cut into chunks before the first of them is embedded."""

MIRRORED_CHARACTERS: Final = 8_000_000
"""The longest packed embeddings that a mirror takes: a store of documents has a limit. Above it they are made anew."""


@dataclass(slots=True)
class Draft:
    """`item` and `before` are what the ledger had when it was begun. `rows` are complete once nothing is `missing` of
    them; with a `failure` it goes no further."""

    tenant: str
    place: str
    mirror: Mirror
    item: Item | None = None
    before: Mirror | None = None
    is_new: bool = True
    rows: Embeddings | None = None
    missing: list[int] = field(default_factory=list[int])
    points: list[Point] = field(default_factory=list[Point])
    failure: Failure | None = None

    @property
    def texts(self) -> list[str]:
        return self.mirror.texts

    def outcome(self, spread: float, *, anew: bool) -> Outcome:
        return Outcome(self.place, self.mirror, self.is_new, self.before, self.failure, anew, spread)


def drafted(told: Told, chunker: Chunker) -> Draft:
    chunks = chunker.chunks(told.text or "")
    mirror = Mirror(
        told.version, told.fields, [chunk.text for chunk in chunks], [chunk.start for chunk in chunks], value=told.value
    )
    return Draft(told.tenant, told.place, mirror)


def mirrored(tenant: str, place: str, item: Item, mirror: Mirror) -> Draft:
    """One that is made of nothing but what the ledger has of it."""
    return Draft(tenant, place, mirror, item, mirror, is_new=False)


def parts(told: Sequence[Told]) -> Iterator[list[Told]]:
    """As much as is to be cut at once."""
    part: list[Told] = []
    characters = 0
    for one in told:
        length = len(one.text or "")
        if part and (len(part) == ITEMS_PER_GROUP or characters + length > CHARACTERS_PER_PART):
            yield part
            part, characters = [], 0
        part.append(one)
        characters += length
    if part:
        yield part


def groups(drafts: Sequence[Draft]) -> Iterator[list[Draft]]:
    """What goes together: as many as fit one call of the store. A long text goes alone."""
    group: list[Draft] = []
    chunks = 0
    for draft in drafts:
        count = len(draft.texts)
        if group and (len(group) == ITEMS_PER_GROUP or chunks + count > POINTS_PER_CALL):
            yield group
            group, chunks = [], 0
        group.append(draft)
        chunks += count
    if group:
        yield group


def reuse(draft: Draft, model: str, dimension: int) -> None:
    """Take the embeddings that are known: a text that stayed the same is not embedded again."""
    texts, before = draft.texts, draft.before
    known: dict[str, int] = {}
    if before is not None and before.embeddings and before.model == model:
        known = {text: at for at, text in enumerate(before.texts)}
    draft.missing = [at for at, text in enumerate(texts) if text not in known]
    if before is None or not before.embeddings or len(draft.missing) == len(texts):
        draft.rows, draft.missing = None, list(range(len(texts)))
        return
    rows = unpacked(before.embeddings, len(before.texts))
    if rows.shape[1] != dimension:
        draft.rows, draft.missing = None, list(range(len(texts)))
        return
    draft.rows = np.empty((len(texts), dimension), np.float32)
    for at, text in enumerate(texts):
        if (found := known.get(text)) is not None:
            draft.rows[at] = rows[found]


def lacks_embeddings(draft: Draft, model: str) -> bool:
    """Whether one that is made of its mirror needs the embedder."""
    return bool(draft.texts) and (draft.mirror.embeddings is None or draft.mirror.model != model)


def take(draft: Draft, rows: Embeddings) -> None:
    """The embeddings that were missing."""
    if draft.rows is None:
        draft.rows = rows
    else:
        draft.rows[draft.missing] = rows
    draft.missing = []


def finish(draft: Draft, model: str) -> None:
    """Make the points, and what the mirror says of their embeddings."""
    if draft.failure is not None:
        return
    mirror = draft.mirror
    rows = draft.rows if draft.rows is not None else np.empty((0, 1), np.float32)
    draft.points = points_of(draft.tenant, draft.place, mirror, rows)
    if lacks_embeddings(draft, model) and len(embeddings := packed(rows)) <= MIRRORED_CHARACTERS:
        draft.mirror = Mirror(
            mirror.version, mirror.fields, mirror.texts, mirror.starts, model, embeddings, mirror.value
        )
    draft.is_new = draft.mirror != draft.before
