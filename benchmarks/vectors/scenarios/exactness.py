"""Compares the results of the index with an exact search."""

import numpy as np

from benchmarks.vectors.lab import Lab
from benchmarks.vectors.sizes import BATCH, FOUND
from hivemem_contracts.vectors.requests import Recall
from hivemem_vectors.pipeline.decisions.keywords import text_words
from hivemem_vectors.pipeline.decisions.points import traits_of
from hivemem_vectors.recall.decisions.filters import Question
from hivemem_vectors.recall.decisions.mirror_scan import nearest, unit_rows
from hivemem_vectors.recall.decisions.ranking import dense_score, hints_of

NEAR = 1_000


async def run(lab: Lab) -> None:
    count = lab.sizes.memories
    texts = [lab.corpus.text(number) for number in range(count)]
    rows = np.concatenate([lab.corpus.embeddings(texts[at : at + BATCH]) for at in range(0, count, BATCH)])
    questions = lab.corpus.questions[: lab.sizes.compared]
    of_questions = unit_rows(lab.corpus.of_questions[: lab.sizes.compared])
    words = [text_words(text).words for text in texts]
    traits = [traits_of(text) for text in texts]
    wanted: list[set[str]] = []
    for text, question in zip(questions, of_questions, strict=True):
        asked = Question.of("", Recall(query=text), 0)
        # Farther ones cannot be among the best, however many words they have.
        near = nearest(rows @ question, NEAR)
        scores = {
            number: dense_score(float(rows[number] @ question), words[number])
            * hints_of(asked, "user", traits[number], "", 0)
            for number in near
        }
        wanted.append({str(number) for number in sorted(scores, key=lambda number: -scores[number])[:FOUND]})
    for contender in lab.fillers:
        await contender.use("offline")
        shares: list[float] = []
        for question, exact in zip(questions, wanted, strict=True):
            answer = await contender.hive.recall(question, limit=FOUND, weights={"dense": 1.0})
            shares.append(len(exact & {item.key for item in answer.items}) / FOUND)
        lab.results.add("recall@10", contender.name, "", [sum(shares) / len(shares)])
