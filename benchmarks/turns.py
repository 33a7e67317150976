"""The order of the contenders, and their names."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from hivemem_contracts.identifiers import new_id

T = TypeVar("T")


def turns(contenders: Sequence[T], rounds: int) -> Iterator[tuple[int, T]]:
    """Yield every contender once a round; a different one starts each round, so that the order varies."""
    for number in range(rounds):
        first = number % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            yield number, contender


def fresh(kind: str) -> str:
    return f"{kind}-{new_id()}"
