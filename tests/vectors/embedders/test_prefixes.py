"""Questions and passages have prefixes of their own, and share the rest."""

from hivemem_vectors.embedders.cache import CachedEmbedder, RecentEmbeddings
from hivemem_vectors.embedders.prefixes import by_role

from .counting import ScriptedEmbedder, expected


async def test_a_text_is_embedded_by_its_role() -> None:
    inner = ScriptedEmbedder()
    cached = CachedEmbedder(inner, RecentEmbeddings())
    questions, passages = by_role(cached, query_prefix="query: ", passage_prefix="passage: ")

    assert (await questions.embed(["tea"])).tolist() == expected(["query: tea"]).tolist()
    await passages.embed(["tea", "milk"])
    await questions.embed(["tea"])

    assert inner.asked == [["query: tea"], ["passage: tea", "passage: milk"]]


def test_another_prefix_of_passages_is_another_model() -> None:
    named = [
        tuple(embedder.model for embedder in by_role(ScriptedEmbedder(), query_prefix="q: ", passage_prefix=prefix))
        for prefix in ("", "p: ")
    ]

    assert named == [("scripted", "scripted"), ("p: scripted", "p: scripted")]
