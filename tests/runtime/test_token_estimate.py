import pytest

from hivemem_runtime.tokens import estimated_tokens


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("", 0),
        ("Hello, world!", 4),
        ("The quick brown fox jumps over the lazy dog.", 10),
        ("2026-11-18T12:25:55Z", 13),
        ("internationalization", 2),
        ("line one\n\nline two", 5),
        ("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", 43),
        ("Die Sitzung wurde auf Donnerstag verschoben, weil die Geschäftsführung noch keine Zahlen hatte.", 17),
        ("Встреча перенесена на четверг, потому что у руководства ещё не было цифр.", 21),  # noqa: RUF001 it is Russian
        ("会议改到星期四，因为管理层还没有数字，文件也不见了。", 18),  # noqa: RUF001 it is Chinese
    ],
)
def test_a_text_costs_about_what_a_tokenizer_of_today_counts(text: str, counted: int) -> None:
    assert 0.9 * counted <= estimated_tokens(text) <= 1.3 * counted + 1


def test_more_text_costs_more() -> None:
    assert estimated_tokens("some words " * 100) > 90 * estimated_tokens("some words")
