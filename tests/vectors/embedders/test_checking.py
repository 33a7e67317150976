import numpy as np
import pytest

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_vectors.embedders.ports import checked_rows


def test_good_rows_pass_as_floats_of_32_bits() -> None:
    rows = checked_rows(np.array([[1.0, 2.0]]), texts=1, model="m", dimension=2)

    assert rows.dtype == np.float32
    assert rows.tolist() == [[1, 2]]


def test_a_wrong_dimension_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="m answered with 3 numbers, and 2 were expected") as refused:
        checked_rows(np.zeros((1, 3)), texts=1, model="m", dimension=2)

    assert refused.value.context == {"field": "dimension", "expected": 2, "actual": 3}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), 1e300, 1e30])
def test_numbers_that_are_not_finite_are_refused_by_name(number: float) -> None:
    rows = np.zeros((3, 2))
    rows[1, 1] = number

    with pytest.raises(InvalidRequest, match="m answered with numbers that are not finite") as refused:
        checked_rows(rows, texts=3, model="m", dimension=2)

    assert refused.value.context == {"field": "embedding", "index": 1}


def test_too_few_rows_are_no_answer() -> None:
    with pytest.raises(Unavailable, match="1 embeddings for 2 texts"):
        checked_rows(np.zeros((1, 2)), texts=2, model="m", dimension=2)
