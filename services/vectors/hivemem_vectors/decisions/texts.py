"""The text of a memory: what of it is embedded and searched."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

TEXT_CHARACTERS: Final = 200_000
"""The most of one memory that is indexed; what comes after is not found by its words or its meaning."""

_BETWEEN: Final = "\n"


def text_of(value: object, metadata: Mapping[str, Any]) -> str:
    """`metadata.text` where there is one, else the strings of the value in order; empty where there is none."""
    told = metadata.get("text")
    if isinstance(told, str) and told.strip():
        return told.strip()[:TEXT_CHARACTERS]
    pieces: list[str] = []
    room = TEXT_CHARACTERS
    for string in _strings(value):
        pieces.append(string[:room])
        room -= len(string) + len(_BETWEEN)
        if room <= 0:
            break
    return _BETWEEN.join(pieces)


def _strings(value: object) -> Iterator[str]:
    """Without recursion: a value may be nested as deep as its sender likes."""
    rest: list[object] = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, str):
            if stripped := item.strip():
                yield stripped
        elif isinstance(item, Mapping):
            rest.extend(reversed(list(cast("Mapping[str, object]", item).values())))
        elif isinstance(item, list | tuple):
            rest.extend(reversed(cast("list[object]", item)))
