from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hivemem_memory.decisions.value_conditions import meets
from hivemem_vectors.pipeline.decisions.changes import TEXT_CHARACTERS, event_text, text_of, value_fields
from hivemem_vectors.pipeline.decisions.points import value_words

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def test_the_text_of_the_metadata_goes_first() -> None:
    assert text_of({"fact": "from the value"}, {"text": " from the metadata "}) == "from the metadata"


def test_a_text_that_is_no_string_or_blank_is_none() -> None:
    assert text_of("from the value", {"text": 7}) == "from the value"
    assert text_of("from the value", {"text": "  "}) == "from the value"


def test_the_strings_of_a_value_come_in_order() -> None:
    value = {"b": "one", "a": [2, "two", {"deep": ["three", None, " "]}], "c": "four"}

    assert text_of(value, {}) == "one\ntwo\nthree\nfour"


def test_what_has_no_string_has_no_text() -> None:
    assert text_of({"a": 1, "b": [True, None]}, {}) == ""


def test_a_deeply_nested_value_is_read() -> None:
    value: Any = "bottom"
    for _ in range(5_000):
        value = [value]

    assert text_of(value, {}) == "bottom"


def test_a_long_text_is_cut() -> None:
    assert len(text_of(["x" * 150_000, "y" * 150_000, "z"], {})) <= TEXT_CHARACTERS + 1
    assert len(text_of("", {"text": "x" * 300_000})) == TEXT_CHARACTERS


NAMES = st.sampled_from(["a", "b", "a.b", ""])
SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([1.0, 0.5, -0.0, "1", "x"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)


@settings(deadline=None)  # other tests run in parallel
@given(VALUES, st.lists(NAMES, min_size=1, max_size=3).map(".".join), SCALARS)
def test_a_recall_filters_by_the_fields_by_which_memories_are_listed(value: Any, name: str, wanted: Any) -> None:
    found = set(value_words({name: wanted})) <= set(value_words(value_fields(value)))

    assert found == meets(value, {name: wanted})


def test_fields_of_a_value_are_short_and_bounded() -> None:
    value = {"deep": {"n": 1}, "long": "x" * 257, "x" * 257: 1, **{f"k{number}": number for number in range(64)}}

    assert list(value_fields(value)) == [f"k{number}" for number in range(64)]


@settings(deadline=None)  # other tests run in parallel
@given(JSON)
def test_every_string_of_a_value_is_in_its_text(value: Any) -> None:
    text = text_of(value, {})

    def strings(item: Any) -> list[str]:
        if isinstance(item, str):
            return [item.strip()]
        inside: list[Any] = [*item.values()] if isinstance(item, dict) else [*item] if isinstance(item, list) else []
        return [string for inner in inside for string in strings(inner)]

    assert text == "\n".join([string for string in strings(value) if string])


def test_the_text_of_an_event_has_its_author_and_the_day_on_which_it_occurred() -> None:
    event = {"author": "Caroline", "content": {"said": "I went to a support group."}, "metadata": {}}

    assert event_text(event) == "Caroline: I went to a support group."
    assert event_text({**event, "content": {"count": 7}}) == ""
