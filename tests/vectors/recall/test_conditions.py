"""The parts of a filter that the store checks, and the parts left to the final check."""

from hivemem_vectors.recall.decisions.filters import Question
from hivemem_vectors.stores.ports import Between, Equal


def test_times_past_what_the_store_compares_exactly_are_left_to_the_last_word() -> None:
    far, farther = 2**53 + 1, 2**54

    assert Question(0, updated_before=far).conditions() == []
    assert Question(0, updated_after=-farther).conditions() == []
    assert Question(0, updated_after=far).conditions() == [Between("updated_at", above=2**53)]
    assert Question(0, valid_at=far).conditions() == [Between("valid_to", above=2**53, or_missing=True)]
    assert not Question(0, valid_at=far).holds("user\x01k", {"updated_at": 0, "valid_to": far})
    assert not Question(0, updated_after=farther).holds("user\x01k", {"updated_at": far})


def test_expiry_is_asked_of_the_store_on_demand() -> None:
    question = Question(7, prefix="user")

    assert question.conditions() == [Equal("below", "user")]
    assert question.conditions(unexpired=True)[1:] == [Between("expires_at", above=7, or_missing=True)]
