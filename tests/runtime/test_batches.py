"""Long lists in parts: nothing is lost, the order stays, and no part is over its bounds."""

from hypothesis import given
from hypothesis import strategies as st

from hivemem_runtime.batches import batches, grouped, slices


@given(st.lists(st.integers()), st.integers(1, 10))
def test_slices_hold_every_item_in_order_and_are_full_but_for_the_last(items: list[int], size: int) -> None:
    found = list(slices(items, size))

    assert [item for some in found for item in some] == items
    assert all(len(some) == size for some in found[:-1])
    assert all(1 <= len(some) <= size for some in found[-1:])


@given(st.lists(st.integers(0, 12)), st.integers(1, 10), st.integers(1, 4))
def test_batches_stay_within_both_bounds_unless_one_item_alone_is_larger(
    sizes: list[int], most: int, most_items: int
) -> None:
    found = list(batches(sizes, lambda size: size, most=most, most_items=most_items))

    assert [size for batch in found for size in batch] == sizes
    assert all(1 <= len(batch) <= most_items for batch in found)
    assert all(sum(batch) <= most or len(batch) == 1 for batch in found)


def test_groups_keep_the_order_of_keys_and_items() -> None:
    found = grouped([("b", 1), ("a", 2), ("b", 3)])

    assert list(found.items()) == [("b", [1, 3]), ("a", [2])]
