import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hivemem_vectors.pipeline.decisions.keywords import asked_words
from hivemem_vectors.recall.decisions.ranking import (
    HINT,
    USUAL_WEIGHT,
    Piece,
    Scores,
    Weights,
    dense_score,
    keyword_score,
    ranking,
    recency,
    score,
    worth_of_words,
)

SHARE = st.floats(0, 1)
SCORES = st.builds(Scores, SHARE, SHARE, SHARE, SHARE, st.floats(0.5, 1.5))
WEIGHTS = st.builds(Weights, relevance=st.floats(0.01, 1), recency=SHARE, importance=SHARE, dense=SHARE)


@settings(deadline=None)  # other tests run in parallel
@given(SCORES, WEIGHTS)
def test_a_score_is_from_0_to_1_and_only_proportions_of_weights_matter(scores: Scores, weights: Weights) -> None:
    doubled = Weights(2 * weights.relevance, 2 * weights.recency, 2 * weights.importance, weights.dense)

    assert -1e-9 <= score(scores, weights) <= 1 + 1e-9
    assert score(scores, doubled) == pytest.approx(score(scores, weights))


def test_relevance_alone_is_convex() -> None:
    assert score(Scores(0.5, 1.0, 0.0, 0.0), Weights()) == pytest.approx(0.5 * 0.5 + 0.5)


def test_what_is_weighed_decides() -> None:
    old_and_near, new_and_far = Scores(0.9, 0.5, 0.1, 0.0), Scores(0.3, 0.0, 1.0, 0.0)

    assert score(old_and_near, Weights()) > score(new_and_far, Weights())
    assert score(old_and_near, Weights(recency=1.0)) < score(new_and_far, Weights(recency=1.0))


def test_weights_that_count_nothing_are_no_weights() -> None:
    with pytest.raises(AssertionError):
        Weights(relevance=0)


def test_recency_halves_with_each_half_life() -> None:
    assert recency(0, 10) == 1
    assert recency(10, 10) == 0.5
    assert recency(30, 10) == 0.125
    assert recency(-5, 10) == 1
    assert recency(1e12, 1) == 0


def test_a_cosine_below_zero_is_as_far_as_zero() -> None:
    assert [dense_score(cosine, 10**9) for cosine in (-0.5, 0.0, 0.4, 1.0000001)] == pytest.approx([0, 0, 0.4, 1])


def test_the_fewer_words_a_text_has_the_less_counts_what_it_has_in_part() -> None:
    assert dense_score(0.8, 0) == dense_score(0.8, 1) < dense_score(0.8, 5) < dense_score(0.8, 50) < 0.8
    assert keyword_score(2.0, 3.0, 10) < keyword_score(2.0, 3.0, 30) < keyword_score(2.0, 3.0, 300)
    assert dense_score(1.0, 1) == keyword_score(3.0, 3.0, 1) == 1


def test_a_chance_hit_on_one_word_of_many_counts_nothing() -> None:
    assert 0 < keyword_score(0.5, 10.0, 50) < keyword_score(1.0, 10.0, 50) < 0.001


def test_a_word_that_nothing_has_is_worth_as_much_as_the_rarest() -> None:
    found, both = asked_words("owls"), asked_words("owls whales")
    best = dict.fromkeys(found[0].forms, 5.0)

    assert worth_of_words(found, best, 1_000) == pytest.approx(5.0 / USUAL_WEIGHT)
    assert worth_of_words(both, best, 1_000) > worth_of_words(found, best, 1_000) + 7


@settings(deadline=None)  # other tests run in parallel
@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 10**6))
def test_a_keyword_score_is_from_0_to_1_and_grows_with_bm25(low: float, high: float, worth: float, words: int) -> None:
    scores = [keyword_score(bm25, worth, words) for bm25 in sorted((low, high))]

    assert 0 <= scores[0] <= scores[1] <= 1


def piece(place: str, version: int, chunk: int, dense: float) -> Piece:
    return Piece(place, version, chunk, 0, 100, dense, 0.0, 0, None)


def test_a_second_piece_of_the_newest_version_is_a_hint() -> None:
    old, best, second, other = (
        piece("a", 1, 0, 0.9),
        piece("a", 2, 0, 0.8),
        piece("a", 2, 1, 0.4),
        piece("b", 1, 0, 0.8),
    )

    first, last = ranking([old, second, best, other], Weights(), 0)

    assert (first.piece.place, first.piece.chunk, last.piece) == ("a", 0, other)
    assert first.scores.hints == pytest.approx(1 + HINT / 2)
