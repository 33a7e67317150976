"""Who is measured when, and under which names."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from hivemem_contracts.identifiers import new_id

T = TypeVar("T")


def turns(contenders: Sequence[T], rounds: int) -> Iterator[tuple[int, T]]:
    """Everybody once a round; who begins changes, so that nobody always runs after the same one."""
    for number in range(rounds):
        first = number % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            yield number, contender


def fresh(kind: str) -> str:
    return f"{kind}-{new_id()}"
