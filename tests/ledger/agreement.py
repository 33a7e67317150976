"""Compares all answers of a ledger with the answers of the model."""

import random
from collections.abc import Sequence
from typing import Any

from hivemem_runtime.ledger.entity import AnyEntity, Index
from hivemem_runtime.ledger.past import head_as_of, head_at
from hivemem_runtime.ledger.port import Head, Ledger, Record

from .model import Key, Model, ModelRecord

SAMPLES = 12
AUTHORS = ("ada", "bo", "both", "nobody")
BOARDS = ("red", "blue")


async def agree(ledger: Ledger, model: Model, draw: random.Random) -> None:
    for key in sorted(model.keys):
        await agree_on_key(ledger, model, key, draw)
    for entity in model.entities.values():
        assert await ledger.tenants(entity) == sorted({key[1] for key in model.keys if key[0] == entity.name})
        for tenant in {key[1] for key in model.keys}:
            ids = [key[2] for key in model.keys if key[:2] == (entity.name, tenant)]
            heads = await ledger.heads(entity, tenant, [*ids, "never"])
            assert heads == {id: model.head((entity.name, tenant, id)) for id in ids}
            if entity.history:
                await _agree_on_moments(ledger, model, entity, tenant, ids, draw)
            for index in entity.indexes:
                await _agree_on_index(ledger, model, entity, tenant, index)


async def agree_on_key(ledger: Ledger, model: Model, key: Key, draw: random.Random) -> None:
    name, tenant, id = key
    entity, kept = model.entities[name], model.keys[key]
    assert await ledger.head(entity, tenant, id) == model.head(key)
    if not entity.history:
        return
    await _agree_on_history(ledger, model, key, draw)
    for version in draw.sample(range(kept.version + 2), min(SAMPLES, kept.version + 2)):
        record = await ledger.record(entity, tenant, id, version)
        expected = kept.records.get(version)
        assert (record.stamp, record.value) == (expected.stamp, expected.value) if record and expected else not expected
        if kept.shares:
            continue
        past = await head_at(ledger, entity, tenant, id, version)
        assert past == (Head(id, version, expected.stamp.at, expected.head) if expected else None)
        if expected:
            for at in (expected.stamp.at - 1, expected.stamp.at, expected.stamp.at + 1):
                assert await head_as_of(ledger, entity, tenant, id, at) == model.as_of(key, at)


async def _agree_on_history(ledger: Ledger, model: Model, key: Key, draw: random.Random) -> None:
    name, tenant, id = key
    entity, version = model.entities[name], model.keys[key].version
    whole = await ledger.history(entity, tenant, id, limit=10_000)
    assert _plain(whole) == _modelled(model.history(key, limit=10_000))
    for _ in range(SAMPLES):
        by_position = entity.position is not None and draw.random() < 0.6
        asked: dict[str, Any] = {
            "after": draw.randint(0, version),
            "before": draw.choice((None, draw.randint(0, version + 2))),
            "limit": draw.choice((1, 3, 100)),
            "reverse": draw.random() < 0.5,
            "by_position": by_position,
            "tag": draw.choice((None, ("author", draw.choice(AUTHORS)))) if by_position else None,
        }
        found = await ledger.history(entity, tenant, id, **asked)
        assert _plain(found) == _modelled(model.history(key, **asked)), asked


async def _agree_on_moments(
    ledger: Ledger, model: Model, entity: AnyEntity, tenant: str, ids: Sequence[str], draw: random.Random
) -> None:
    times = [record.stamp.at for id in ids for record in model.keys[entity.name, tenant, id].records.values()]
    for at in draw.sample(times, min(SAMPLES, len(times))):
        found = await ledger.as_of(entity, tenant, [*ids, "never"], at)
        expected = {id: model.record_as_of((entity.name, tenant, id), at) for id in ids}
        assert {id: (record.stamp, record.value) for id, record in found.items()} == {
            id: (record.stamp, record.value) for id, record in expected.items() if record
        }


async def _agree_on_index(ledger: Ledger, model: Model, entity: AnyEntity, tenant: str, index: Index) -> None:
    for place in BOARDS if index.equals else ("",):
        equals = {name: "plain" if name == "shade" else place for name in index.equals}
        expected = model.find(entity, tenant, index, equals)
        for reverse in (False, True):
            found: list[Head[Any]] = []
            cursor: str | None = None
            while len(found) <= len(expected):
                page = await ledger.find(
                    entity, tenant, index.name, equals=equals, limit=2, cursor=cursor, reverse=reverse
                )
                found += page.items
                cursor = page.cursor
                if cursor is None:
                    break
            assert found == (expected[::-1] if reverse else expected)
        covered = await ledger.covered(entity, tenant, index.name, equals=equals, limit=10_000)
        assert covered.items == model.covered(entity, tenant, index, equals)
        assert await ledger.count(entity, tenant, index.name, equals=equals) == len(expected)


def _plain(records: Sequence[Record[Any]]) -> list[tuple[Any, Any]]:
    return [(record.stamp, record.value) for record in records]


def _modelled(records: Sequence[ModelRecord]) -> list[tuple[Any, Any]]:
    return [(record.stamp, record.value) for record in records]
