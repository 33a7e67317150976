import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hivemem_vectors.pipeline.decisions.keywords import (
    WORD_CHARACTERS,
    WORDS_PER_QUESTION,
    WORDS_PER_TEXT,
    asked_words,
    exact_scores,
    folded,
    sparse,
    sparse_query,
    text_words,
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
    for embedding in (sparse(text_words(text).weights), sparse_query(asked_words(text))):
        assert list(embedding.indices) == sorted(set(embedding.indices))
        assert all(0 <= index < 2**32 for index in embedding.indices)
        assert len(embedding.indices) == len(embedding.values) <= WORDS_PER_TEXT
        assert all(math.isfinite(value) and value > 0 for value in embedding.values)


def test_the_words_of_a_text_and_of_a_question_are_bounded() -> None:
    text = " ".join([f"w{number}" for number in range(10_000)])

    assert len(text_words(text).weights) == WORDS_PER_TEXT
    assert len(asked_words(text)) == WORDS_PER_QUESTION


def test_the_hash_of_a_word_is_the_same_everywhere() -> None:
    assert word_index("memory") == 0xEA6D3435


def test_a_repeated_word_counts_more_but_not_so_often() -> None:
    once, twice, often = (text_words(text).weights[word_index("tea")] for text in ("tea", "tea tea", "tea " * 50))

    assert once < twice < 2 * once
    assert often < 3 * once


def test_a_long_text_is_held_against_its_words() -> None:
    long = text_words("tea " + " ".join([f"w{number}" for number in range(200)])).weights

    assert long[word_index("tea")] < text_words("tea").weights[word_index("tea")]


def test_rare_words_find_more_than_common_ones() -> None:
    documents = [text_words(text).weights for text in ("a red fox", "a blue fox", "a red owl", "a red hen")]

    scores = exact_scores(asked_words("red owls"), documents)

    assert scores.bm25[2] > scores.bm25[0] == scores.bm25[3] > scores.bm25[1] == 0
    assert scores.best[word_index("owl")] > scores.best[word_index("red")]
    assert exact_scores(asked_words("whale"), documents) == ([0, 0, 0, 0], {})


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What has Ann been painting?", "Ann paints a lake."),
        ("Wo hat sie ihre Bücher gekauft?", "Das Buch, das sie kaufte, war nicht teuer."),
        ("Où sont les maisons de la famille ?", "La maison est dans une rue de la ville."),
        ("¿Dónde están las llaves?", "La llave está en el cajón de la mesa."),
        ("Где мои книги?", "Книга лежит на столе, и она моя."),
        ("Häuser", "Die Häuser am See sind nicht teuer."),
        ("東京", "東京都に住む"),
        ("ERR-4312", "the code was err-4312"),
    ],
)
def test_a_question_finds_a_text_with_another_form_of_its_words(question: str, text: str) -> None:
    forms = {form for word in asked_words(question) for form in word.forms}

    assert forms & text_words(text).weights.keys()


def test_function_words_are_not_asked_for_unless_there_are_no_others() -> None:
    assert [asked.word for asked in asked_words("What did she say about the boats?")] == ["say", "boats"]
    assert [asked.word for asked in asked_words("who is she")] == ["who", "is", "she"]


def test_words_beside_a_text_are_found_and_do_not_make_it_longer() -> None:
    found = text_words("She sailed.", beside="8 May 2023")

    assert found.words == 1
    assert word_index("may") in found.weights
