"""Compares the results of the index with an exact search."""

import numpy as np

from benchmarks.vectors.lab import Lab
from benchmarks.vectors.sizes import BATCH, FOUND
from hivemem_vectors.recall.decisions.mirror_scan import nearest, unit_rows


async def run(lab: Lab) -> None:
    count = lab.sizes.memories
    texts = [lab.corpus.text(number) for number in range(count)]
    rows = np.concatenate([lab.corpus.embeddings(texts[at : at + BATCH]) for at in range(0, count, BATCH)])
    questions = lab.corpus.questions[: lab.sizes.compared]
    of_questions = unit_rows(lab.corpus.of_questions[: lab.sizes.compared])
    wanted = [{str(number) for number in nearest(rows @ question, FOUND)} for question in of_questions]
    for contender in lab.fillers:
        await contender.use("offline")
        shares: list[float] = []
        for question, exact in zip(questions, wanted, strict=True):
            answer = await contender.hive.recall(question, limit=FOUND, weights={"dense": 1.0})
            shares.append(len(exact & {item.key for item in answer.items}) / FOUND)
        lab.results.add("recall@10", contender.name, "", [sum(shares) / len(shares)])
