"""Eviction and flushing against a plain model: each policy and strategy, random appends, reads and deletions."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import pytest

from hivemem_contracts.errors import TooLarge
from hivemem_contracts.windows.models import Flushing, FlushStrategy, WindowResource
from hivemem_runtime.tokens import token_counter
from hivemem_windows.decisions.drafts import Draft, NewMessage
from hivemem_windows.decisions.flushing import plan_flush
from hivemem_windows.decisions.limits import Limits
from hivemem_windows.decisions.screening import Screen
from hivemem_windows.decisions.windows import Rules
from hivemem_windows.entities.contents import SHARES, Content

TOKENS = 200
MESSAGES = 30
ALLOCATED = {"system": 40, "long_term": 60}
STEPS = 400


@dataclass
class Unit:
    share: str
    importance: float
    pinned: bool
    messages: list[tuple[int, int]]
    used: tuple[int, int]
    uses: int = 0
    calls: set[str] = field(default_factory=set[str])

    @property
    def tokens(self) -> int:
        return sum(tokens for _, tokens in self.messages)


class Model:
    """The rules in the plainest form: sort everything, and let the first one go."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.units: list[Unit] = []
        self.left: set[str] = set()
        self.last = 0

    def add(self, message: NewMessage) -> list[int] | None:
        """Return what is evicted; None if the message is refused."""
        saved = [replace(unit, messages=[*unit.messages], calls={*unit.calls}) for unit in self.units], {*self.left}
        evicted = self._add(message, self.last + 1)
        if evicted is None:
            self.units, self.left = saved
        else:
            self.last += 1
        return evicted

    def _add(self, message: NewMessage, sequence: int) -> list[int] | None:
        call = message.fields.get("tool_call_id")
        if call in self.left:
            self.left.discard(call)
            return [sequence]
        unit = next((unit for unit in self.units if call in unit.calls), None)
        if unit is None:
            unit = Unit(
                message.fields["share"],
                message.fields.get("importance", 0.5),
                message.fields.get("pinned", False),
                [],
                (sequence, 0),
            )
            self.units.append(unit)
        unit.calls = (unit.calls - {call}) | set(message.call_ids)
        unit.messages.append((sequence, message.tokens))
        return self._shrunk(unit)

    def _shrunk(self, newest: Unit) -> list[int] | None:
        evicted: list[int] = []
        share, shares = newest.share, self.limits.shares
        rounds: list[tuple[Iterable[str], Any]] = []
        if share in shares:
            rounds.append(((share,), lambda: self.tokens(share) <= shares[share]))
        if shares:
            rounds.append((("short_term",), self.fits))
            rounds.append((("long_term", "short_term"), lambda: self.messages() <= MESSAGES))
        else:
            rounds.append((("long_term", "short_term"), self.fits))
        if share == "system":
            rounds.append((("system",), self.fits))
        for allowed, enough in rounds:
            while not enough():
                loose = [
                    unit for unit in self.units if unit is not newest and not unit.pinned and unit.share in allowed
                ]
                if self.limits.eviction == "priority":
                    loose = [unit for unit in loose if unit.share != "system"]
                if not loose:
                    break
                worst = min(loose, key=self.rank)
                evicted += self.remove(worst)
        if not self.fits() or (share in shares and self.tokens(share) > shares[share]):
            return None
        return sorted(evicted)

    def rank(self, unit: Unit) -> Any:
        age = unit.messages[0][0]
        match self.limits.eviction:
            case "lru":
                return (unit.used, age)
            case "lfu":
                return (unit.uses, age)
            case "priority":
                return (unit.importance, age)
            case _:
                return age

    def remove(self, unit: Unit) -> list[int]:
        self.units.remove(unit)
        self.left |= unit.calls
        return [sequence for sequence, _ in unit.messages]

    def tokens(self, share: str) -> int:
        return sum(unit.tokens for unit in self.units if unit.share == share)

    def messages(self) -> int:
        return sum(len(unit.messages) for unit in self.units)

    def fits(self) -> bool:
        return sum(map(self.tokens, SHARES)) <= TOKENS and self.messages() <= MESSAGES

    def sequences(self, share: str) -> list[int]:
        return sorted(sequence for unit in self.units if unit.share == share for sequence, _ in unit.messages)


def random_message(rng: random.Random, number: int, open_calls: list[str]) -> NewMessage:
    fields: dict[str, Any] = {"role": "user", "share": rng.choices(SHARES, (1, 2, 6))[0]}
    if rng.random() < 0.1:
        fields["pinned"] = True
    if rng.random() < 0.5:
        fields["importance"] = rng.randrange(11) / 10
    if open_calls and rng.random() < 0.3:
        fields["tool_call_id"] = open_calls.pop(rng.randrange(len(open_calls)))
    if rng.random() < 0.2:
        fields["tool_calls"] = [{"id": f"c{number}-{place}"} for place in range(rng.randint(1, 2))]
    return NewMessage(f"m{number}", rng.choice((3, 8, 15, 30, 70)), fields)


@pytest.mark.parametrize("shares", [{}, ALLOCATED], ids=["whole", "allocated"])
@pytest.mark.parametrize("policy", ["fifo", "lru", "lfu", "priority"])
def test_a_policy_evicts_what_the_model_does(policy: str, shares: dict[str, int]) -> None:
    rng = random.Random(f"{policy} {len(shares)}")
    limits = Limits(TOKENS, MESSAGES, shares, policy, 16)
    model, content = Model(limits), Content("chat", "k", 0, 0)
    open_calls: list[str] = []
    gone: set[int] = set()
    for number in range(STEPS):
        draft = Draft(content, limits)
        action = rng.random()
        if action < 0.75:
            message = random_message(rng, number, open_calls)
            expected = model.add(message)
            try:
                draft.add(message)
            except TooLarge:
                assert expected is None
                continue
            assert sorted(draft.evicted) == expected
            gone |= set(draft.evicted)
            open_calls += message.call_ids
        elif action < 0.9 and model.units:
            read = rng.sample(model.units, rng.randint(1, len(model.units)))
            draft.touch({unit.messages[0][0]: 1 for unit in read})
            for unit in read:
                unit.used, unit.uses = (model.last, 1), unit.uses + 1
        elif model.units:
            unit = rng.choice(model.units)
            assert draft.remove([unit.messages[0][0]]) == model.remove(unit)
        content = draft.finished(number)
        assert all(sorted(content.sequences(share)) == model.sequences(share) for share in SHARES)
        assert content.total_tokens() == draft.total == sum(map(model.tokens, SHARES)) <= TOKENS
        assert content.message_count() == draft.count == model.messages() <= MESSAGES
        assert gone.isdisjoint(sequence for share in SHARES for sequence in content.sequences(share))
    assert model.last > STEPS // 3
    assert gone


@pytest.mark.parametrize("strategy", get_args(FlushStrategy))
def test_a_flush_takes_what_the_model_does(strategy: str) -> None:
    rng = random.Random(strategy)
    for _ in range(30):
        first, last, threshold = rng.randrange(4), rng.randrange(4), rng.choice((0.3, 0.8, 1.0))
        flushing = Flushing.model_validate(
            {"strategy": strategy, "threshold": threshold, "keep_first": first, "keep_last": last}
            | {"every_messages": 1, "every_seconds": 1}
        )
        resource = WindowResource(id="chat", type="token", key="k", max_tokens=TOKENS, flushing=flushing)
        limits = Limits(TOKENS, MESSAGES, {}, "lru", 16)
        rules = Rules(resource, 1, limits, token_counter("estimate"), Screen(None))
        model, draft = Model(limits), Draft(Content("chat", "k", 0, 0), limits)
        open_calls: list[str] = []
        for number in range(rng.randrange(60)):
            message = random_message(rng, number, open_calls)
            if model.add(message) is not None:
                draft.add(message)
                open_calls += message.call_ids
            for unit in rng.sample(model.units, len(model.units) // 3):
                draft.touch({unit.messages[0][0]: 1})
                unit.used, unit.uses = (model.last, 1), unit.uses + 1
        content = replace(draft.finished(0), flush={"flush_id": "f", "strategy": strategy})
        assert set(plan_flush(content, rules).units) == flushed_units(model, strategy, first, last, threshold)


def flushed_units(model: Model, strategy: str, first: int, last: int, threshold: float) -> set[int]:
    ordered = strategy in ("fifo", "lru", "lfu", "priority")
    model.limits = replace(model.limits, eviction=strategy if ordered else "fifo")
    talk = [unit for unit in model.units if unit.share != "system"]
    messages = sorted((sequence, unit.messages[0][0]) for unit in talk for sequence, _ in unit.messages)
    kept = {owner for _, owner in [*messages[:first], *messages[max(len(messages) - last, 0) :]]}
    left = sum(map(model.tokens, SHARES))
    half = min(left, threshold * TOKENS) / 2
    taken: set[int] = set()
    for unit in sorted(talk, key=model.rank):
        if unit.pinned or unit.messages[0][0] in kept:
            continue
        if (ordered or strategy == "token_threshold") and left <= half:
            break
        left -= unit.tokens
        taken.add(unit.messages[0][0])
    return taken
