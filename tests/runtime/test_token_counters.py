"""Counts of tokens, compared with tiktoken 0.14 and the tokenizers of Claude 2 and Gemma."""

import base64
import hashlib
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_runtime.tokens import token_counter
from hivemem_runtime.tokens.byte_pairs import SLICE_BYTES, vocabulary

COUNTED = [  # text, cl100k, o200k, Claude 2, Gemma; 0 for runs of marks alone, where Gemma takes more
    ("", 0, 0, 0, 0),
    ("hello world", 2, 2, 2, 2),
    ("rer", 1, 1, 1, 1),
    ("👍", 3, 1, 2, 1),
    ("I'LL don't WE'VE '\u017f", 11, 9, 10, 11),
    ("  \n\n  x\r\n\r\n/ // y  ", 8, 8, 9, 0),
    ("a\x1cb\x85 x\u3000y\u00a0", 9, 9, 8, 8),
    ("CamelCaseHTTPServer2 snake_case", 8, 7, 8, 8),
    ("1234567890 ٣٤ ½ Ⅷ ²", 16, 14, 11, 17),
    ("<|endoftext|>", 7, 7, 7, 6),
    ("e\u0301ǅʰ नमस्ते สวัสดี 한국어 👩\u200d👩\u200d👧\u200d👦 𝒳𐐷", 48, 34, 46, 31),
    ('def f(x):\n\treturn {"a": [1, 2.5e-3]}  # ok\n', 23, 23, 25, 26),
    ("=" * 300, 6, 5, 6, 0),
    ("ab" * 1_500, 1_500, 750, 1_500, 750),
    ("Die Sitzung wurde auf Donnerstag verschoben, weil die Geschäftsführung noch keine Zahlen hatte.", 25, 17, 27, 17),
    ("Встреча перенесена на четверг, потому что у руководства ещё не было цифр.", 33, 21, 36, 20),  # noqa: RUF001
    ("会议改到星期四，因为管理层还没有数字，文件也不见了。", 23, 18, 21, 16),  # noqa: RUF001
    ("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", 43, 43, 44, 59),
]


@pytest.mark.parametrize(("text", "cl100k", "o200k", "claude", "gemma"), COUNTED)
def test_counts_are_those_of_the_providers_or_above(
    text: str, cl100k: int, o200k: int, claude: int, gemma: int
) -> None:
    assert token_counter("openai:cl100k").count_text(text) == cl100k
    assert token_counter("openai:o200k").count_text(text) == o200k
    assert claude <= token_counter("anthropic").count_text(text)
    assert gemma <= token_counter("gemini").count_text(text)


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("cl100k", "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"),
        ("o200k", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"),
    ],
)
def test_the_vocabularies_are_the_published_ones(name: str, digest: str) -> None:
    lines = (b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in vocabulary(name).items())
    assert hashlib.sha256(b"".join(lines)).hexdigest() == digest


def test_a_run_without_a_break_is_counted_in_slices() -> None:
    count = token_counter("openai:o200k").count_text
    assert count("a" * 8_000_000) == 1_000_000
    run = "".join(chr(97 + place * place % 26) for place in range(SLICE_BYTES))
    assert count(run * 50) == 50 * count(run)


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4o", "o200k"),
        ("gpt-4o-mini-2024-07-18", "o200k"),
        ("gpt-5.1", "o200k"),
        ("o3-mini", "o200k"),
        ("gpt-4.1-nano", "o200k"),
        ("ft:gpt-4o-mini:org::id", "o200k"),
        ("gpt-4-turbo", "cl100k"),
        ("gpt-3.5-turbo", "cl100k"),
    ],
)
def test_a_model_counts_as_its_encoding(model: str, encoding: str) -> None:
    counter = token_counter(f"openai:{model}")
    assert (counter.name, counter.exact) == (f"openai:{model}", True)
    assert counter.count_text == token_counter(f"openai:{encoding}").count_text


@pytest.mark.parametrize(
    ("provider", "near"),
    [
        ("openai:o200", "'openai:o200k'"),
        ("antropic", "'anthropic'"),
        ("openai:gpt-4.7", ""),
        ("huggingface:/etc/x", ""),
    ],
)
def test_an_unknown_provider_is_refused_with_the_nearest(provider: str, near: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        token_counter(provider, {"qwen": Path("qwen.json")})
    assert refused.value.context == {"field": "token_provider"}
    assert repr(provider) in refused.value.detail
    assert near in refused.value.detail


def test_a_message_costs_its_texts_and_the_overhead_of_the_provider() -> None:
    counter = token_counter("openai:o200k")
    plain = {"role": "user", "content": "hello world"}
    assert counter.count_message(plain) == 3 + 1 + 2
    assert counter.count_message({**plain, "name": "ann"}) == 3 + 1 + 2 + 1 + counter.count_text("ann")
    assert counter.count_message({"role": "user", "content": [{"type": "text", "text": "hello world"}]}) == 6
    assert counter.reply_overhead == 3
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    assert counter.count_message({"role": "user", "content": [picture]}) < 2_000
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
    asked = counter.count_message({"role": "assistant", "content": None, "tool_calls": [call]})
    assert asked > 4 + counter.count_text("look") + counter.count_text('{"at": "sky"}')
    answered = {"role": "tool", "content": "blue", "tool_call_id": "call_1"}
    assert counter.count_message(answered) > counter.count_message({"role": "tool", "content": "blue"})


def test_a_tokenizer_of_hugging_face_comes_from_the_file_of_its_name(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"one": 0, "two": 1, "?": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "words.json"))
    files = {"words": tmp_path / "words.json", "none": tmp_path / "none.json"}
    counter = token_counter("huggingface:words", files)
    assert (counter.exact, counter.count_text("one two three")) == (True, 3)
    with pytest.raises(Unavailable, match=r"none\.json"):
        token_counter("huggingface:none", files)
