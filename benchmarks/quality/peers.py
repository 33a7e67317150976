"""What the same turns and questions give elsewhere: plain BM25, and LangGraph's store with the same embedder."""

from pathlib import Path
from typing import Final

import bm25s
import Stemmer
from langgraph.store.base import PutOp
from langgraph.store.sqlite.aio import AsyncSqliteStore

from benchmarks.quality.dialogues import Dataset, Dialogue
from benchmarks.quality.fleet import BATCH, FOUND, THREADS
from benchmarks.quality.scoring import Found
from benchmarks.vectors.peers import open_store
from hivemem_vectors.worker import VectorsSettings, open_model

STOP_WORDS: Final = "en_plus"
"""The longer list of bm25s, which has question words too."""


def bm25_answers(dialogue: Dialogue) -> list[Found]:
    """Return what BM25 finds, with the words counted in this dialogue alone."""
    stemmer = Stemmer.Stemmer("english")

    def tokens(texts: list[str]) -> bm25s.tokenization.Tokenized:
        return bm25s.tokenize(texts, stopwords=STOP_WORDS, stemmer=stemmer, show_progress=False)

    index = bm25s.BM25()
    index.index(tokens([turn.line for turn in dialogue.turns]), show_progress=False)
    asked = tokens([question.text for question in dialogue.questions])
    places, _ = index.retrieve(asked, k=min(FOUND, len(dialogue.turns)), show_progress=False)
    return [[[dialogue.turns[place].id] for place in row] for row in places]


async def langgraph_answers(file: Path, dataset: Dataset) -> list[list[Found]]:
    """Return what LangGraph's store finds with the embedder that the environment names, as for the fleet's worker."""
    model = open_model(VectorsSettings(data=file.parent, embedder_threads=THREADS))
    if model.load is not None:
        await model.load()

    async def embed(texts: list[str]) -> list[list[float]]:
        rows: list[list[float]] = (await model.embedder.embed(texts)).tolist()
        return rows

    try:
        async with open_store(file, {"dims": model.embedder.dimension, "embed": embed, "fields": ["text"]}) as store:
            return [await _answers(store, dialogue) for dialogue in dataset.dialogues]
    finally:
        await model.embedder.close()


async def _answers(store: AsyncSqliteStore, dialogue: Dialogue) -> list[Found]:
    place = (dialogue.name,)
    for start in range(0, len(dialogue.turns), BATCH):
        turns = dialogue.turns[start : start + BATCH]
        await store.abatch([PutOp(place, turn.id, {"text": turn.line}) for turn in turns])
    return [
        [[found.key] for found in await store.asearch(place, query=question.text, limit=FOUND)]
        for question in dialogue.questions
    ]
