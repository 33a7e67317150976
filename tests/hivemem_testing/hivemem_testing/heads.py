"""A store of heads alone, for tests of decisions: appends are applied at once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, RecordT, Stamp
from hivemem_runtime.ledger.port import Append, Head


@dataclass
class DictHeads:
    """Heads in a dictionary. `at` is a clock that ticks once per decision."""

    heads: dict[tuple[str, str], Head[Any]] = field(default_factory=dict[tuple[str, str], Head[Any]])
    records: dict[tuple[str, str], list[tuple[Stamp, Any]]] = field(
        default_factory=dict[tuple[str, str], list[tuple[Stamp, Any]]]
    )
    at: int = 0

    def __call__(self, entity: Entity[HeadT, RecordT], id: str) -> Head[HeadT] | None:
        return cast("Head[HeadT] | None", self.heads.get((entity.name, id)))

    def apply(self, decision: Sequence[Append[Any, Any]], actor: str = "bot") -> None:
        self.at += 1
        for append in decision:
            key = (append.entity.name, append.id)
            before = self.heads.get(key)
            version = before.version + 1 if before else 1
            stamp = Stamp("t", append.entity.name, append.id, version, self.at, actor)
            value = append.entity.evolve(before.value if before else None, append.record, stamp)
            self.heads[key] = Head(append.id, version, self.at, value)
            self.records.setdefault(key, []).append((stamp, append.record))

    def erase(self, entity: AnyEntity, id: str) -> None:
        self.at += 1
        before = self.heads[entity.name, id]
        self.heads[entity.name, id] = Head(id, before.version + 1, self.at, None)
