import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hivemem_vectors.recall.decisions.ranking import Scores, Weights, dense_score, keyword_shares, recency, score

SHARE = st.floats(0, 1)
SCORES = st.builds(Scores, SHARE, SHARE, SHARE, SHARE)
WEIGHTS = st.builds(Weights, relevance=st.floats(0.01, 1), recency=SHARE, importance=SHARE, dense=SHARE)


@settings(deadline=None)  # other tests run in parallel
@given(SCORES, WEIGHTS)
def test_a_score_is_from_0_to_1_and_only_proportions_of_weights_matter(scores: Scores, weights: Weights) -> None:
    doubled = Weights(2 * weights.relevance, 2 * weights.recency, 2 * weights.importance, weights.dense)

    assert -1e-9 <= score(scores, weights) <= 1 + 1e-9
    assert score(scores, doubled) == pytest.approx(score(scores, weights))


def test_relevance_alone_is_convex() -> None:
    assert score(Scores(0.5, 1.0, 0.0, 0.0), Weights()) == pytest.approx(0.8 * 0.5 + 0.2)


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
    assert [dense_score(cosine) for cosine in (-0.5, 0.0, 0.4, 1.0000001)] == [0, 0, 0.4, 1]


def test_a_chance_hit_on_one_word_of_many_counts_little() -> None:
    few = keyword_shares({"a": 2.0}, words=10, documents=1_000)
    all_of_it = keyword_shares({"a": 20.0, "b": 10.0}, words=2, documents=1_000)

    assert few["a"] < 0.01
    assert all_of_it == {"a": 1.0, "b": 0.25}


@settings(deadline=None)  # other tests run in parallel
@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1e6)), st.integers(0, 100), st.integers(0, 10**9))
def test_shares_are_from_0_to_1_in_the_order_of_the_scores(
    scores: dict[str, float], words: int, documents: int
) -> None:
    shares = keyword_shares(scores, words=words, documents=documents)

    assert shares.keys() == scores.keys()
    assert all(0 <= share <= 1 and math.isfinite(share) for share in shares.values())
    by_score = sorted(scores, key=lambda id: scores[id])
    assert all(shares[low] <= shares[high] for low, high in pairwise(by_score))
