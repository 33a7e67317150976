"""Batches as large as an embedder can take without making anybody wait for long."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from hivemem_contracts.errors import Unavailable
from hivemem_vectors.embedders.ports import Embedder, EmbedderWrapper, Embeddings, check_texts, numbered

SMALLEST_MASS: Final = 1_024
FIRST_MASS: Final = 8_192
LARGEST_MASS: Final = 262_144
"""The most characters of one batch, counted as if all its texts were as long as its longest: that is what a model
computes."""

TARGET_SECONDS: Final = 0.25
_GROWTH: Final = 1.5
_FULL_SHARE: Final = 0.5
"""A batch that was not half full says nothing about a larger one."""

_TEXT_MASS: Final = 16
"""What even the shortest text costs."""


def text_mass(text: str) -> int:
    return len(text) + _TEXT_MASS


class BatchMass:
    """The size of batches: it grows after a quick batch, and shrinks after a slow one."""

    def __init__(
        self,
        *,
        first: int = FIRST_MASS,
        smallest: int = SMALLEST_MASS,
        largest: int = LARGEST_MASS,
        target_seconds: float = TARGET_SECONDS,
    ) -> None:
        assert 0 < smallest <= first <= largest
        self._smallest, self._largest, self._target_seconds = smallest, largest, target_seconds
        self.limit = first

    def took(self, mass: int, seconds: float) -> None:
        """Learn from the duration of a batch of that mass."""
        if seconds > self._target_seconds:
            fitting = int(mass * self._target_seconds / seconds)
            # At most halved: one slow batch may be the machine's fault.
            self._set(max(min(fitting, self.limit), self.limit // 2))
        elif mass >= self.limit * _FULL_SHARE and seconds * _GROWTH <= self._target_seconds:
            self._set(int(self.limit * _GROWTH))

    def failed(self) -> None:
        """Shrink after a batch that timed out or was refused."""
        self._set(self.limit // 2)

    def _set(self, limit: int) -> None:
        self.limit = min(max(limit, self._smallest), self._largest)


class BatchedEmbedder(EmbedderWrapper):
    """Splits texts into batches of about equal length, and runs a few batches side by side."""

    def __init__(
        self,
        embedder: Embedder,
        mass: BatchMass,
        *,
        texts_per_batch: int,
        side_by_side: int,
        clock: Callable[[], float],
    ) -> None:
        assert texts_per_batch >= 1
        assert side_by_side >= 1
        super().__init__(embedder)
        self._mass = mass
        self._texts_per_batch = texts_per_batch
        self._side_by_side = side_by_side
        self._clock = clock

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        check_texts(texts)
        rows = np.empty((len(texts), self.dimension), np.float32)
        batches = self._batches(texts)
        runners = min(self._side_by_side, len(texts))
        if runners == 1:
            await self._run(batches, texts, rows)
            return rows
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(runners):
                    group.create_task(self._run(batches, texts, rows))
        except BaseExceptionGroup as failures:
            # The first one stopped the others: it is the reason, and callers know it by its type.
            raise failures.exceptions[0] from None
        return rows

    async def _run(self, batches: Iterator[list[int]], texts: Sequence[str], rows: Embeddings) -> None:
        for batch in batches:
            mass = len(batch) * max([text_mass(texts[at]) for at in batch])
            began = self._clock()
            try:
                with numbered(batch):
                    rows[batch] = await self._embedder.embed([texts[at] for at in batch])
            except Unavailable:
                self._mass.failed()
                raise
            self._mass.took(mass, self._clock() - began)

    def _batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield the positions of each batch's texts. A batch is made when it is needed, by the limit of that moment."""
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        batch: list[int] = []
        for at in order:
            # In rising order the newest text is the longest one.
            is_full = len(batch) == self._texts_per_batch or (len(batch) + 1) * text_mass(texts[at]) > self._mass.limit
            if batch and is_full:
                yield batch
                batch = []
            batch.append(at)
        if batch:
            yield batch
