"""The checker finds impossible histories and accepts possible ones."""

import pytest

from .checker import Kind, Operation, check

HISTORY = {"k": {2: "a", 3: "b", 4: "c"}}


def operation(kind: Kind, id: str, version: int, began: float, ended: float, tries: int = 1) -> Operation:
    return Operation(kind, "k", id, version, began, ended, version - 1 if kind == "write" else 0, tries)


GOOD = [
    operation("read", "", 1, 0, 1),
    operation("write", "a", 2, 1, 4),
    operation("write", "b", 3, 2, 5),  # concurrent with the one before
    operation("refused", "x", 2, 4, 6),
    operation("read", "b", 3, 3, 7),  # begun before the next one, ended after it
    operation("write", "c", 4, 6, 6.5),
    operation("read", "c", 4, 8, 9),
]


def test_nothing_is_found_in_what_can_be() -> None:
    assert list(check(GOOD, HISTORY)) == []


def test_a_refused_write_that_was_sent_twice_may_have_been_done() -> None:
    sent_twice = operation("refused", "c", 3, 6, 8, tries=2)
    assert list(check([*GOOD[:5], sent_twice], HISTORY)) == []


@pytest.mark.parametrize(
    ("wrong", "finding"),
    [
        (operation("write", "x", 3, 5, 6), "k: b and x both made version 3: one update is lost"),
        (operation("read", "b", 3, 8, 9), "k: a read found version 3 after a write had ended with 4"),
        (operation("read", "a", 3, 4, 5), "k: a read found version 3 as a, it is b"),
        (operation("write", "x", 5, 9, 10), "k: x made version 5, which is None at the end"),
        (operation("refused", "x", 4, 8, 9), "k: x expected version 4, which was the newest one, and was refused"),
        (operation("refused", "x", 3, 1, 2), "k: x expected version 3, which was the newest one, and was refused"),
    ],
    ids=["lost-update", "stale-read", "other-value", "lost-write", "refused-at-the-end", "refused-too-early"],
)
def test_finds(wrong: Operation, finding: str) -> None:
    assert finding in list(check([*GOOD, wrong], HISTORY))


@pytest.mark.parametrize(
    ("history", "finding"),
    [
        ({2: "a", 3: "b", 4: "c", 5: "x"}, "k: version 5 is x, which was never acknowledged"),
        ({2: "a", 3: "b", 4: "c", 5: "a"}, "k: a is there twice, as version 2 and 5"),
        ({2: "a", 4: "c"}, "k: the versions at the end are [2, 4]"),
    ],
    ids=["foreign", "twice", "hole"],
)
def test_finds_in_the_history(history: dict[int, str], finding: str) -> None:
    assert finding in list(check(GOOD, {"k": history}))


def test_finds_a_write_that_skips_a_version() -> None:
    skipping = Operation("write", "k", "c", 4, 6, 7, expected=2)
    assert "k: c expected version 2 and made 4" in list(check([*GOOD[:5], skipping], HISTORY))
