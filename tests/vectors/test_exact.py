import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hivemem_vectors.recall.decisions.mirror_scan import cosines, nearest, unit_rows


def test_rows_get_length_one_and_zeros_stay() -> None:
    rows = unit_rows(np.array([[3, 4], [0, 0]], np.float32))

    assert rows.tolist() == [pytest.approx([0.6, 0.8]), [0, 0]]


def test_cosines_do_not_depend_on_lengths() -> None:
    rows = unit_rows(np.array([[2, 0], [0, 9], [-1, 0]], np.float32))

    assert cosines(np.array([5, 0], np.float32), rows).tolist() == pytest.approx([1, 0, -1])
    assert cosines(np.zeros(2, np.float32), rows).tolist() == [0, 0, 0]


@settings(deadline=None)  # other tests run in parallel
@given(st.lists(st.integers(0, 5), max_size=40), st.integers(0, 50))
def test_the_nearest_are_those_of_a_full_sort(scores: list[int], top_k: int) -> None:
    found = nearest(np.array(scores, np.float32), top_k)

    assert found == sorted(range(len(scores)), key=lambda at: (-scores[at], at))[:top_k]
