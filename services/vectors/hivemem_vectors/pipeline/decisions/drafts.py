"""A version of an item on its way into the index: its chunks, their embeddings, and its points."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from hivemem_runtime.batches import batches
from hivemem_vectors.embedders.ports import Embeddings
from hivemem_vectors.pipeline.decisions.changes import SECTION_END, ItemVersion
from hivemem_vectors.pipeline.decisions.points import points_of
from hivemem_vectors.pipeline.decisions.splitting import Chunk, Splitter
from hivemem_vectors.pipeline.entities import SYNCED, Item, Mirror, packed, unpacked
from hivemem_vectors.stores.ports import POINTS_PER_CALL, Point

CHUNK_TOKENS: Final = 200
"""The most tokens of a chunk. The meaning of a longer one is blurred."""

OVERLAP_TOKENS: Final = 20
CHUNKS_PER_TEXT: Final = 2_000
"""The most chunks of a text. The longest text has fewer in any alphabetic language; the rest of others is left out."""

_CHARACTERS_PER_TOKEN: Final = 8
"""A long run of letters is one unknown token to a tokenizer, so this many characters count as at least one."""

_MARKDOWN: Final = re.compile(r"^(?:#{1,6} \S|```|[-*+] \S.*\n[-*+] \S|\|.+\|\s*$|\d+\. \S.*\n\d+\. \S)", re.MULTILINE)

CountTokens = Callable[[str], int]


class Chunker:
    """Splits texts into chunks of at most `tokens`, counted by the tokenizer of their model. Equal texts give equal
    chunks, and every visible character is in one of them, up to `CHUNKS_PER_TEXT`."""

    def __init__(self, count: CountTokens, *, tokens: int = CHUNK_TOKENS, overlap: int = OVERLAP_TOKENS) -> None:
        def size(text: str) -> int:
            least = -(-len(text) // _CHARACTERS_PER_TOKEN)
            # Counting a text of megabytes takes long, holds up every other thread, and would not change the answer.
            return least if least > tokens else max(count(text), least)

        self._size = size
        self._tokens = tokens
        self._splitter = Splitter(size, tokens, overlap, reach=_CHARACTERS_PER_TOKEN * tokens)

    def chunks(self, text: str) -> list[Chunk]:
        """Return the chunks of each section in order; none for a blank text."""
        found: list[Chunk] = []
        start = 0
        for section in text.split(SECTION_END):
            found += [Chunk(start + chunk.start, chunk.text) for chunk in self._chunks(section)]
            start += len(section) + len(SECTION_END)
        return found[:CHUNKS_PER_TEXT]

    def _chunks(self, text: str) -> list[Chunk]:
        stripped = text.strip()
        if not stripped:
            return []
        # No token is shorter than a character: most memories need no counting at all.
        if len(stripped) <= self._tokens or self._size(stripped) <= self._tokens:
            return [Chunk(text.index(stripped), stripped)]
        pieces = self._splitter.pieces(text, markdown=_MARKDOWN.search(text) is not None)
        return list(islice(pieces, CHUNKS_PER_TEXT))


ITEMS_PER_GROUP: Final = 100
"""The most items in one call of the embedder, one call of the store, and one write."""

CHARACTERS_PER_PART: Final = 500_000
"""The most characters that are split into chunks before the first of them is embedded."""

MIRRORED_CHARACTERS: Final = 8_000_000
"""The longest packed embeddings in a mirror, because document stores have a limit. Longer ones are made anew."""


class Failure(NamedTuple):
    """Why a version is not in the index. A refusal does not pass by itself. `wait` is the least number of microseconds
    before a retry is worth it; `jitter` is a factor of about 1, so that not everything is retried at once."""

    reason: str
    refused: bool
    wait: int = 0
    jitter: float = 1.0


@dataclass(slots=True)
class Draft:
    """A version of an item on its way into the index. `item` and `before` are what the ledger had when it was begun.
    `rows` are complete once nothing is `missing`. A draft with a `failure` goes no further."""

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

    @property
    def version(self) -> int:
        assert self.mirror.version is not None, "a draft is of a version"
        return self.mirror.version


def drafts_of(told: Iterable[ItemVersion], chunker: Chunker) -> list[Draft]:
    """Return a draft of each version. This takes long, and belongs in a thread."""
    return [_drafted(one, chunker) for one in told]


def _drafted(told: ItemVersion, chunker: Chunker) -> Draft:
    chunks = chunker.chunks(told.text or "")
    mirror = Mirror(
        told.version, told.fields, [chunk.text for chunk in chunks], [chunk.start for chunk in chunks], value=told.value
    )
    return Draft(told.tenant, told.place, mirror)


def mirrored(tenant: str, place: str, item: Item, mirror: Mirror) -> Draft:
    """Return a draft that is made of the item's mirror alone."""
    return Draft(tenant, place, mirror, item, mirror, is_new=False)


def parts(told: Sequence[ItemVersion]) -> Iterator[list[ItemVersion]]:
    """Yield parts that are split into chunks at once."""
    return batches(told, lambda one: len(one.text or ""), most=CHARACTERS_PER_PART, most_items=ITEMS_PER_GROUP)


def groups(drafts: Sequence[Draft]) -> Iterator[list[Draft]]:
    """Yield groups of drafts that fit one call of the store. A long text is a group of its own."""
    return batches(drafts, lambda draft: len(draft.texts), most=POINTS_PER_CALL, most_items=ITEMS_PER_GROUP)


def reuse(draft: Draft, model: str, dimension: int) -> None:
    """Take known embeddings, so that unchanged texts are not embedded again."""
    texts, before = draft.texts, draft.before
    draft.rows, draft.missing = None, list(range(len(texts)))
    if before is None or not before.embeddings or before.model != model:
        return
    known = {text: at for at, text in enumerate(before.texts)}
    found = {at: known[text] for at, text in enumerate(texts) if text in known}
    if found and (rows := unpacked(before.embeddings, len(before.texts))).shape[1] == dimension:
        draft.rows = np.empty((len(texts), dimension), np.float32)
        draft.rows[list(found)] = rows[list(found.values())]
        draft.missing = [at for at in draft.missing if at not in found]


def lacks_embeddings(draft: Draft, model: str) -> bool:
    """Return whether a draft that is made of its mirror needs the embedder."""
    return bool(draft.texts) and (draft.mirror.embeddings is None or draft.mirror.model != model)


def is_unlike(draft: Draft) -> bool:
    """Return whether the index does not have the item with this text and these fields."""
    item, before, mirror = draft.item, draft.before, draft.mirror
    if item is None or item.gone or item.state != SYNCED or before is None:
        return True
    return (before.version, before.fields, before.texts) != (mirror.version, mirror.fields, mirror.texts)


def move(draft: Draft, scope: list[str]) -> None:
    draft.mirror = replace(draft.mirror, fields={**draft.mirror.fields, "scope": scope})


def take(draft: Draft, rows: Embeddings) -> None:
    """Take the missing embeddings."""
    if draft.rows is None:
        draft.rows = rows
    else:
        draft.rows[draft.missing] = rows
    draft.missing = []


def finish(drafts: Iterable[Draft], model: str) -> None:
    """Make the points, and the mirrors with their embeddings. This takes long, and belongs in a thread."""
    for draft in drafts:
        rows = draft.rows if draft.rows is not None else np.empty((0, 1), np.float32)
        draft.points = points_of(draft.tenant, draft.place, draft.mirror, rows)
        if lacks_embeddings(draft, model) and len(embeddings := packed(rows)) <= MIRRORED_CHARACTERS:
            draft.mirror = replace(draft.mirror, model=model, embeddings=embeddings)
        draft.is_new = draft.mirror != draft.before
