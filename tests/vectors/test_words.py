import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hivemem_vectors.pipeline.decisions.keywords import (
    WORD_CHARACTERS,
    WORDS_PER_TEXT,
    Idf,
    document,
    folded,
    keyword_scores,
    query,
    word_index,
    words,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Quick fox", ["the", "quick", "fox"]),
        ("ERR-4312 again", ["err-4312", "err", "4312", "again"]),
        ("max_age v2.3.1", ["max_age", "max", "age", "v2.3.1", "v2", "3", "1"]),
        ("ann@example.org", ["ann@example.org", "ann", "example", "org"]),
        ("Café STRASSE straße", ["cafe", "strasse", "strasse"]),
        ("ﬁle ①", ["file", "1"]),
        ("ends with a dot.", ["ends", "with", "a", "dot"]),
        ("東京都", ["東", "京", "都", "東京", "京都"]),
        ("--- ... !", []),
    ],
)
def test_words_of_a_text(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_a_long_word_is_cut() -> None:
    assert words("x" * 500) == ["x" * WORD_CHARACTERS]


@settings(deadline=None)  # other tests run in parallel
@given(st.text(max_size=200))
def test_words_do_not_depend_on_case_and_folding_twice_changes_nothing(text: str) -> None:
    assert folded(folded(text)) == folded(text)
    assert words(folded(text)) == words(text)


@settings(deadline=None)  # other tests run in parallel
@given(st.text(max_size=500))
def test_a_sparse_vector_is_one_that_stores_take(text: str) -> None:
    for embedding in (document(text), query(text)):
        assert list(embedding.indices) == sorted(set(embedding.indices))
        assert all(0 <= index < 2**32 for index in embedding.indices)
        assert len(embedding.indices) == len(embedding.values) <= WORDS_PER_TEXT
        assert all(math.isfinite(value) and value > 0 for value in embedding.values)
    assert document(text).indices == query(text).indices


def test_the_words_of_one_text_are_bounded() -> None:
    assert len(document(" ".join([f"w{number}" for number in range(10_000)])).indices) == WORDS_PER_TEXT


def test_the_hash_of_a_word_is_the_same_everywhere() -> None:
    assert word_index("memory") == 0xEA6D3435


def test_a_repeated_word_counts_more_but_not_so_often() -> None:
    once, twice, often = (document(text).values[0] for text in ("tea", "tea tea", "tea " * 50))

    assert once < twice < 2 * once
    assert often < 3 * once


def test_a_long_text_is_held_against_its_words() -> None:
    index = word_index("tea")
    long = document("tea " + " ".join([f"w{number}" for number in range(200)]))

    assert long.values[long.indices.index(index)] < document("tea").values[0]


def test_rare_words_find_more_than_common_ones() -> None:
    documents = [document(text) for text in ("the red fox", "the blue fox", "the green owl")]

    scores = keyword_scores(query("the owl"), documents, Idf(documents))

    assert scores[2] > scores[0] == scores[1] > 0
    assert keyword_scores(query("whale"), documents, Idf(documents)) == [0, 0, 0]
