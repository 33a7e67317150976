"""The player of pages detects wrong pages."""

from pathlib import Path

import pytest

from . import markdown
from .fleet import Fleet
from .markdown import Block, blocks, broken, docstring_blocks
from .playing import Player, commands, first_missing, is_screen


def block(language: str, text: str) -> Block:
    return Block("page.md", 10, language, text)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "print(1)  # 2"),
        ("python", "import asyncio\nawait asyncio.sleep(0)\nprint('a')  # b\nprint('b')  # a"),
        ("sh", "hivemem sessions append --session-id nobody --event '{}'"),
        ("sh", "make nothing"),
        ("sh", "rm -r ."),
        ("sh", 'nats request hive.req.default.a.sessions.get \'{"session_id": "nobody"}\''),
    ],
)
def test_a_page_that_is_wrong_is_found_out(fleet: Fleet, tmp_path: Path, language: str, text: str) -> None:
    with Player(fleet, tmp_path) as player, pytest.raises(AssertionError):
        player.play(block(language, text))


def test_a_screen_that_is_wrong_is_found_out(fleet: Fleet, tmp_path: Path) -> None:
    with Player(fleet, tmp_path) as player, pytest.raises(AssertionError, match="the screen differs"):
        player.play(Block("page.md", 1, "sh", "echo one", screen="two"))


def test_an_error_names_the_page_and_the_line(fleet: Fleet, tmp_path: Path) -> None:
    with Player(fleet, tmp_path) as player, pytest.raises(ZeroDivisionError) as failed:
        player.play(block("python", "import asyncio\n\nawait asyncio.sleep(0)\n1 / 0"))
    assert (str(failed.traceback[-1].path), failed.traceback[-1].lineno + 1) == ("page.md", 13)


def test_names_go_on_from_block_to_block(fleet: Fleet, tmp_path: Path) -> None:
    with Player(fleet, tmp_path) as player:
        player.play(block("python", "one = 1"))
        player.play(block("python", "print(one + 1)  # 2"))


def test_a_loop_without_an_end_is_ended_with_its_first_line(fleet: Fleet, tmp_path: Path) -> None:
    text = "import asyncio\n\nasync def ever():\n    while True:\n        yield 'x'\n        await asyncio.sleep(0)\n\n"
    with Player(fleet, tmp_path) as player:
        assert player.play(block("python", text + "async for word in ever():\n    print(word)  # x"))


def test_a_command_may_span_lines_and_the_last_one_has_the_screen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\nhivemem version\nnats request a \\\n    '{}'\n```\n\n```text\n1\n2\n```\n\nSaid.\n\n```text\n3\n```\n"
    )
    monkeypatch.setattr(markdown, "ROOT", tmp_path)
    first, other = blocks(page)
    assert commands(first) == [("hivemem version", []), ("nats request a '{}'", ["1", "2"])]
    assert (other.language, other.screen) == ("text", None)


def test_a_screen_is_the_whole_output_but_for_what_varies() -> None:
    output = "id  01M7SKAK96X7AFWGDQ7TV9A4HC\nat  2026-11-19 09:48:18.208034Z\n\n0.2 ms away\n"
    same = ["id  01ARZ3NDEKTSV4RRFFQ69G5FAV", "at  2025-01-02 03:04:05.000006Z", "", "11.7 ms away"]

    assert is_screen(same, output)
    assert is_screen(["id  …", "…", "0.2 ms away"], output)
    assert not is_screen(same[:-1], output)
    assert not is_screen(same[1:], output)
    assert not is_screen(["id 01ARZ3NDEKTSV4RRFFQ69G5FAV", *same[1:]], output)


def test_expected_lines_keep_their_order_and_may_leave_out_others() -> None:
    assert first_missing(["a", "c … e"], "a\nb\nc   d  e") is None
    assert first_missing(["c", "a"], "a\nb\nc") == "a"


def test_the_examples_of_a_docstring_are_its_indented_parts() -> None:
    def documented() -> None:
        """It does.

            one = 1

            two = 2

        And more.
        """

    assert [found.text.strip() for found in docstring_blocks("here", documented)] == ["one = 1\n\ntwo = 2"]


def test_a_link_that_leads_nowhere_is_broken(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `two`, three\n\n## Again\n\n## Again\n")
    assert broken(page, "#one-two-three") is None
    assert broken(page, "page.md#again-1") is None
    assert broken(page, "other.md") is not None
