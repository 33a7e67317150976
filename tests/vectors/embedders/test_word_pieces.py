"""The tokenizer of the packaged model gives the pieces that the `tokenizers` package gives."""

import hashlib
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from hivemem_vectors.embedders.offline.word_pieces import (
    TOKENS_PER_TEXT,
    VOCABULARY,
    VOCABULARY_SHA256,
    WordPieces,
)

from ..reference_tokenizer import reference_tokenizer

PIECES = WordPieces()
REFERENCE = reference_tokenizer()
CORPUS = [
    *(Path(__file__).resolve().parents[3] / "docs").glob("*.md"),
    *Path(__file__).resolve().parents[1].glob("retrieval/*.json*"),
]
WORDS = (
    *("Hello", "ÉCOLE", "naïve", "Straße", "don't", "e-mail", "foo_bar", "3.14", "$5", "[UNK]", "[CLS]", "##ing"),
    *("日本語", "한국어", "ไทย", "नमस्ते", "Привет", "İstanbul", "\u0391\u03a3", "😀", "\ufb01n", "a\u0301", "\u0344"),
    *("x" * 100, "x" * 101, "\0", "\ufffd", "\u00ad", "\u200b", "\ufeff", "\u3000", "\u2028", "\t", "\r\n", "\x1c"),
    *("\u2260", "\uf900", "\u037e", "\ue000"),
)


def assert_same(texts: list[str]) -> None:
    batch = PIECES.batch(texts)
    for place, encoding in enumerate(REFERENCE.encode_batch(texts)):
        assert batch.ids[place].tolist() == encoding.ids, repr(texts[place])
        assert batch.mask[place].tolist() == encoding.attention_mask


def test_the_vocabulary_is_the_one_that_the_model_was_trained_with() -> None:
    assert hashlib.sha256(VOCABULARY.read_bytes()).hexdigest() == VOCABULARY_SHA256
    assert VOCABULARY_SHA256 in (VOCABULARY.parent / "NOTICE.txt").read_text(encoding="utf-8")


def test_text_is_cut_into_pieces_of_the_vocabulary_without_regard_to_case() -> None:
    lines = VOCABULARY.read_text(encoding="utf-8").splitlines()

    batch = PIECES.batch(["Héllo EMBEDDINGS!", "a"])

    assert [lines[id] for id in batch.ids[0]] == ["[CLS]", "hello", "em", "##bed", "##ding", "##s", "!", "[SEP]"]
    assert [lines[id] for id in batch.ids[1]][:4] == ["[CLS]", "a", "[SEP]", "[PAD]"]
    assert batch.mask[1].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert PIECES.count("Héllo EMBEDDINGS!") == 6


def test_pieces_are_counted_past_what_the_model_reads() -> None:
    assert PIECES.count("word " * 1_000) == 1_000
    assert PIECES.batch(["word " * 1_000]).ids.shape == (1, TOKENS_PER_TEXT)
    assert PIECES.count("x" * 1_000_000) == 1


def test_the_pieces_of_documents_are_those_of_the_reference() -> None:
    paragraphs = [text for path in CORPUS for text in path.read_text(encoding="utf-8").split("\n\n")]
    assert len(paragraphs) > 500
    assert_same(paragraphs)


def test_the_pieces_of_every_character_are_those_of_the_reference() -> None:
    characters = [chr(code) for code in range(0x30000) if not 0xD800 <= code < 0xE000]
    # Twenty to a text, which is within what the model reads.
    assert_same([" ".join(f"a{each}b" for each in characters[at : at + 20]) for at in range(0, len(characters), 20)])


@settings(deadline=None)
@given(st.lists(st.sampled_from(WORDS) | st.characters(exclude_categories=["Cs"]), max_size=12), st.randoms())
def test_the_pieces_of_any_text_are_those_of_the_reference(words: list[str], random: Random) -> None:
    assert_same(["".join(word + random.choice(("", " ", "  ")) for word in words)])
