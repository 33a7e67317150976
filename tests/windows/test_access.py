"""The patterns of the agents that may write."""

import pytest

from hivemem_windows.decisions.access import matches


@pytest.mark.parametrize(
    ("pattern", "name", "matched"),
    [("a", "a", True), ("a", "ab", False), ("a*", "a", True), ("*b*", "abc", True), ("a*b*c", "abbc", True),
     ("ab*ba", "aba", False), ("*b", "ba", False), ("a*b*c", "acb", False), ("*", "", True)],
)  # fmt: skip
def test_patterns_of_writers(pattern: str, name: str, matched: bool) -> None:
    assert matches(pattern, name) is matched
