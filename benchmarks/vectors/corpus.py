"""The texts and questions of the retrieval set, with copies of each text up to the wanted number.

No model embeds a hundred thousand texts in the time of a benchmark. So each copy of a text has the embedding of that
text, moved a little at random: as far apart as different wordings of the same fact.
"""

import asyncio
import json
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hivemem_vectors.embedders.offline.embedder import DIMENSION, OfflineEmbedder
from hivemem_vectors.recall.decisions.mirror_scan import unit_rows

SET: Final = Path(__file__).resolve().parents[2] / "tests" / "vectors" / "retrieval"
MOVED_BY: Final = 0.5
"""The length of the random offset of an embedding, whose own length is 1."""

_CHANCES: Final = 4_096
_MARK: Final = " · note "
_NUMBER: Final = re.compile(f"{_MARK}(\\d+)")

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Corpus:
    """`texts` with their embeddings `of_texts`, and `questions` with theirs."""

    texts: tuple[str, ...]
    of_texts: Rows
    questions: tuple[str, ...]
    of_questions: Rows
    chances: Rows

    @classmethod
    async def load(cls) -> "Corpus":
        texts, questions = await asyncio.to_thread(_read)
        embedder = OfflineEmbedder(threads=2)
        try:
            of_texts, of_questions = await embedder.embed(texts), await embedder.embed(questions)
        finally:
            await embedder.close()
        chances = np.random.default_rng(11).normal(size=(_CHANCES, DIMENSION)).astype(np.float32)
        return cls(tuple(texts), of_texts, tuple(questions), of_questions, unit_rows(chances) * MOVED_BY)

    def text(self, number: int) -> str:
        return f"{self.texts[number % len(self.texts)]}{_MARK}{number}"

    def embeddings(self, texts: list[str]) -> Rows:
        """Return the embeddings of texts from `text`, equal in each run."""
        # LangGraph embeds the JSON of a value, so other text may follow the number.
        numbers = [int(_NUMBER.findall(text)[-1]) for text in texts]
        base = self.of_texts[[number % len(self.texts) for number in numbers]]
        chance = self.chances[[zlib.crc32(b"%d" % number) % _CHANCES for number in numbers]]
        return unit_rows(base + chance)

    def is_made(self, text: str) -> bool:
        return _MARK in text


def _read() -> tuple[list[str], list[str]]:
    texts = [json.loads(line)["text"] for line in (SET / "memories.jsonl").read_text(encoding="utf-8").splitlines()]
    questions = (SET / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return texts, [json.loads(line)["question"] for line in questions]
