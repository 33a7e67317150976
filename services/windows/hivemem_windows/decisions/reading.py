"""The choice of a read: messages of the system first, then the newest ones. Units stay whole."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from hivemem_windows.entities.contents import SHARES, Content


class ReadUnit(NamedTuple):
    """A unit with its messages and their tokens."""

    unit: int
    sequences: list[int]
    tokens: int


class Selection(NamedTuple):
    """What a read takes, the most important units first."""

    units: list[ReadUnit]
    with_summary: bool
    cut: str | None


def select_units(
    content: Content, *, limit: int | None, max_tokens: int | None, shares: Collection[str] | None
) -> Selection:
    """Return the units that fit. The first other unit that does not fit ends the search."""
    wanted = SHARES if shares is None else tuple(shares)
    taken: list[ReadUnit] = []
    messages = tokens = 0
    cut: str | None = None

    def why_not(unit: ReadUnit) -> str | None:
        if limit is not None and messages + len(unit.sequences) > limit:
            return "limit"
        return "tokens" if max_tokens is not None and tokens + unit.tokens > max_tokens else None

    for unit in _units(content, "system") if "system" in wanted else ():
        reason = why_not(unit)
        cut = cut or reason
        if reason is None:
            taken.append(unit)
            messages, tokens = messages + len(unit.sequences), tokens + unit.tokens
    summary = 0 if content.summary is None or shares is not None else int(content.summary["tokens"])
    if summary and max_tokens is not None and tokens + summary > max_tokens:
        summary, cut = 0, cut or "tokens"
    tokens += summary
    others = sorted(unit for share in wanted if share != "system" for unit in _units(content, share))
    for unit in reversed(others):
        reason = why_not(unit)
        if reason is not None:
            return Selection(taken, summary > 0, cut or reason)
        taken.append(unit)
        messages, tokens = messages + len(unit.sequences), tokens + unit.tokens
    return Selection(taken, summary > 0, cut)


def _units(content: Content, share: str) -> Iterator[ReadUnit]:
    for unit, tokens in zip(content.units[share], content.tokens[share], strict=True):
        results = content.results.get(str(unit), ()) if content.results else ()
        yield ReadUnit(unit, [unit, *(sequence for sequence, _ in results)], tokens)
