"""The examples of the pages and of the client's docstrings work as written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import hivemem

from .fleet import Fleet
from .markdown import ROOT, Block, blocks, docstring_blocks, links, name_of
from .playing import Player, commands

README: Final = ROOT / "README.md"
PAGES: Final = list(
    dict.fromkeys(
        [
            README,
            *(ROOT / path for _, target in links(README) if (path := target.partition("#")[0]).endswith(".md")),
            *sorted((ROOT / "docs").glob("*.md")),
        ]
    )
)
"""All pages, in the order in which the README leads to them: a reader has one fleet for all of them."""
PUBLIC: Final[list[tuple[str, object]]] = [
    ("hivemem", hivemem),
    *((f"hivemem.{name}", getattr(hivemem, name)) for name in dir(hivemem)),
]


def playable(block: Block) -> bool:
    return block.language in ("python", "console")


@pytest.fixture
def player(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Player]:
    # The examples use the default port of `hivemem up`; this fleet has another one.
    for connect in (hivemem.connect, hivemem.sync.connect):
        _, *others = connect.__defaults__ or ("",)
        monkeypatch.setattr(connect, "__defaults__", (fleet.url, *others))
    monkeypatch.chdir(tmp_path)
    with Player(fleet, tmp_path) as player:
        yield player


@pytest.mark.parametrize("page", [page for page in PAGES if any(map(playable, blocks(page)))], ids=name_of)
def test_a_page_runs_from_top_to_bottom(page: Path, player: Player) -> None:
    for block in blocks(page):
        player.play(block)


@pytest.mark.parametrize(
    "example",
    [block for where, documented in PUBLIC for block in docstring_blocks(where, documented)],
    ids=lambda block: block.source,
)
def test_an_example_of_a_docstring_runs(example: Block, player: Player) -> None:
    assert player.play(example)


def test_commands_stand_in_console_blocks() -> None:
    """Console blocks are the ones that are run."""
    for page in PAGES:
        for block in blocks(page):
            if block.language != "console":
                assert "$ hivemem" not in block.text, f"{block.source}:{block.line} is not run"
            else:
                assert commands(block)
