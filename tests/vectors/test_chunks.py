from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hivemem_vectors.pipeline.decisions.changes import SECTION_END
from hivemem_vectors.pipeline.decisions.drafts import CHUNKS_PER_TEXT, Chunker
from hivemem_vectors.pipeline.decisions.splitting import Chunk

TOKENS = 24
CHARACTERS_PER_TOKEN = 8
PLAIN = st.lists(st.text(st.characters(codec="utf-8"), max_size=30) | st.just("a word or two."), max_size=40).map(
    " ".join
)
MARKDOWN = st.lists(
    st.sampled_from(
        [
            "# Heading",
            "## Smaller",
            "A sentence. And another one, longer.",
            "- item",
            "```\ncode here\n```",
            "| a | b |",
            "",
        ]
    ),
    max_size=40,
).map("\n\n".join)


def count_words(text: str) -> int:
    return len(text.split())


def chunker() -> Chunker:
    return Chunker(count_words, tokens=TOKENS, overlap=4)


def is_covered(text: str, chunks: list[Chunk]) -> bool:
    seen = [False] * len(text)
    for start, piece in chunks:
        seen[start : start + len(piece)] = [True] * len(piece)
    return all(here or char.isspace() for here, char in zip(seen, text, strict=True))


@settings(deadline=None)  # other tests run in parallel
@given(PLAIN | MARKDOWN | st.text(max_size=2_000))
def test_no_character_is_lost_and_each_chunk_says_where_it_stands(text: str) -> None:
    chunks = chunker().chunks(text)

    assert is_covered(text, chunks)
    assert all(text[start : start + len(piece)] == piece for start, piece in chunks)
    assert [chunk.start for chunk in chunks] == sorted(chunk.start for chunk in chunks)


@settings(deadline=None)  # other tests run in parallel
@given(PLAIN | MARKDOWN | st.text(max_size=2_000))
def test_chunks_are_bounded_in_tokens_and_characters(text: str) -> None:
    for _, piece in chunker().chunks(text):
        assert piece.strip()
        assert count_words(piece) <= TOKENS
        assert len(piece) <= TOKENS * CHARACTERS_PER_TOKEN


@settings(deadline=None)  # other tests run in parallel
@given(PLAIN | MARKDOWN)
def test_the_same_text_gives_the_same_chunks(text: str) -> None:
    assert chunker().chunks(text) == chunker().chunks(text)


def test_a_short_text_is_one_chunk_and_not_counted() -> None:
    def count(text: str) -> int:
        raise AssertionError(f"{text!r} is short enough by its characters")

    assert Chunker(count).chunks("  Likes tea.\n") == [Chunk(2, "Likes tea.")]


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_what_has_nothing_to_read_has_no_chunks(text: str) -> None:
    assert chunker().chunks(text) == []


def test_a_run_of_letters_without_a_space_is_cut_too() -> None:
    chunks = chunker().chunks("x" * 1_000)

    assert len(chunks) > 1
    assert is_covered("x" * 1_000, chunks)


@pytest.mark.parametrize("text", ["x" * 100_000, "word " * 20_000, "# x\n\n" * 10_000, "a" + " " * 100_000 + "b"])
def test_what_is_too_long_by_its_characters_alone_is_not_counted(text: str) -> None:
    counted: list[int] = []

    def count(piece: str) -> int:
        counted.append(len(piece))
        return len(piece.split())

    assert Chunker(count, tokens=TOKENS, overlap=4).chunks(text)
    assert max(counted) <= TOKENS * CHARACTERS_PER_TOKEN


def test_no_chunk_has_parts_of_two_sections() -> None:
    sections = ["one", "two " * 30, " ", "# three\n\nwords"]
    text = SECTION_END.join(sections)
    chunks = chunker().chunks(text)

    assert is_covered(text, chunks)
    assert all(text[start : start + len(piece)] == piece for start, piece in chunks)
    assert not any(SECTION_END in piece for _, piece in chunks)
    assert [chunk.text for chunk in chunks][:1] == ["one"]


def test_neighbours_overlap_a_little() -> None:
    text = " ".join([f"word{number}" for number in range(100)])
    chunks = chunker().chunks(text)

    for before, after in pairwise(chunks):
        assert before.start < after.start <= before.start + len(before.text)
    assert any(after.start < before.start + len(before.text) for before, after in pairwise(chunks))


def test_markdown_is_cut_before_its_headings() -> None:
    section = "Some words about this part that fill a good half."
    text = "\n\n".join([f"# Part {number}\n\n{section}" for number in range(6)])

    pieces = [chunk.text for chunk in chunker().chunks(text)]

    assert len(pieces) > 1
    assert all(piece.startswith("# Part") for piece in pieces)


def test_a_heading_stays_with_the_words_below_it_and_code_in_one_piece() -> None:
    code = "```\n# one two three\n\nfour five six\n```"
    text = f"# Part\n\n- {'word ' * 15}\n- {'word ' * 15}\n\nAnd:\n\n{code}\n\nlast"

    pieces = [chunk.text for chunk in chunker().chunks(text)]

    assert pieces[0].startswith("# Part\n\n- word")
    assert any(code in piece for piece in pieces)


def test_sentences_stay_whole() -> None:
    text = " ".join(["One sentence has five words, e.g. these."] * 10)

    assert all(piece.startswith("One") and piece.endswith("these.") for _, piece in chunker().chunks(text))


def test_the_chunks_of_one_text_are_bounded() -> None:
    text = " ".join(["word"] * (CHUNKS_PER_TEXT * 8))

    assert len(Chunker(count_words, tokens=4, overlap=0).chunks(text)) == CHUNKS_PER_TEXT


def test_a_text_that_is_far_too_long_is_not_counted() -> None:
    """The splitter measures whole texts again and again, which would take the time of other requests."""
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(len(text))
        return len(text)

    assert Chunker(count, tokens=TOKENS, overlap=4).chunks("x" * 20_000)
    assert max(counted) <= TOKENS * CHARACTERS_PER_TOKEN
