"""Random writes over few keys, so that they conflict often."""

import random
from dataclasses import dataclass, field, replace

from hivemem_runtime.ledger.port import Write

from .writes import TENANT, Told, count, count_and_gauge, edit, gauge, note_and_count, nothing, series, transfer

TENANTS = (TENANT, TENANT, TENANT, "zeta")
NOTES = ("n0", "n1", "n2.x", "$n3")
COUNTERS = ("c0", "c1", "c2")
BOARDS = ("red", "blue")
RECENT = 40


@dataclass(slots=True)
class WriteSource:
    draw: random.Random
    _made: int = 0
    _recent: list[Write] = field(default_factory=list[Write])

    def next(self, versions: dict[tuple[str, str, str], int]) -> Write:
        """Draw a new write, or a retry of a recent one by its client; `versions` are the versions that clients know."""
        if self._recent and self.draw.random() < 0.2:
            self._made += 1
            return replace(self.draw.choice(self._recent), cause=f"again-{self._made}")
        write = self._new(versions)
        if write.request_id or write.once:
            self._recent = [*self._recent[-RECENT:], write]
        return write

    def _new(self, versions: dict[tuple[str, str, str], int]) -> Write:
        draw = self.draw
        self._made += 1
        name = f"w{self._made}"
        told = Told(
            tenant=draw.choice(TENANTS),
            actor=draw.choice(("ada", "bo")),
            request_id=f"r-{name}" if draw.random() < 0.5 else None,
            once=f"o-{name}" if draw.random() < 0.4 else None,
            cause=name,
        )
        note, counter = draw.choice(NOTES), draw.choice(COUNTERS)
        expect: int | None = None
        if draw.random() < 0.25:
            expect = versions.get(("counter", told.tenant, counter), 0) + draw.choice((0, 0, 0, -1, 1))
        kind = draw.random()
        if kind < 0.2:
            return self._gauged(counter, told)
        if kind < 0.4:
            return count(counter, draw.randint(0, 9), name=draw.choice(BOARDS), expect=expect, told=told)
        if kind < 0.75:
            return edit(
                note,
                name,
                at_version=draw.random() < 0.7,
                board=draw.choice((*BOARDS, None)),
                rank=draw.choice((None, 0, 1, 2)),
                pinned=draw.choice((None, True, False)),
                author=draw.choice(("ada", "bo", None)),
                topic=draw.choice(("x", "y")),
                add=draw.randint(0, 9),
                told=told,
            )
        if kind < 0.83:
            source, target = draw.sample(COUNTERS, 2)
            return transfer(source, target, draw.randint(1, 20), told=told)
        if kind < 0.95:
            several = draw.random() < 0.3
            steps = draw.randint(1, 9)
            return (
                series(note, counter, steps, told=told) if several else note_and_count(note, counter, name, told=told)
            )
        return nothing(counter, told=replace(told, once=None))

    def _gauged(self, id: str, told: Told) -> Write:
        draw = self.draw
        if draw.random() < 0.5:
            return count_and_gauge(id, gauge_first=draw.random() < 0.5, told=told)
        return gauge(id, draw.randint(0, 9), board=draw.choice((*BOARDS, None)), told=told)
