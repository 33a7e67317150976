"""Random writes in any order are answered, stored and announced as the model says."""

import random
from typing import Any

import pytest

from .hive import NAMESPACE, Agent, Body, Refused, source
from .written import KEPT, Model

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMES = ("a", "b", "c")
AGENTS = ("ann", "bob")
OPERATIONS = ("put", "put", "put", "patch", "patch", "delete", "restore", "restore", "put_batch", "again")
SEEN = (*KEPT, "value", "version", "deleted", "created_by", "updated_by", "operation")
VALUES: tuple[Any, ...] = (None, 1, "text", [1, {}], {}, {"x": 1}, {"x": {"y": [2]}, "z": None})
PATCHES: tuple[Any, ...] = (None, 2, {}, {"x": None}, {"x": {"y": None, "w": 1}}, {"z": {"deep": {"er": None}}})
CHOICES: dict[str, tuple[Any, ...]] = {
    "memory_type": ("episodic", None),
    "metadata": ({}, {"m": 1}, None),
    "importance": (0.0, 0.5, None),
    "valid_from": ("2026-01-01T00:00:00.000000Z", "2026-03-01T00:00:00.000000Z", None),
    "valid_to": ("2026-02-01T00:00:00.000000Z", "2026-04-01T00:00:00.000000Z", None),
    "index": (False, ["a"], None),
    "source": (source(session_id="s"), None),
}


def put_fields(chance: random.Random, model: Model, name: str) -> Body:
    fields: Body = {"value": chance.choice(VALUES), **expectation(chance, model, name)}
    for field in chance.sample(sorted(CHOICES), chance.randrange(3)):
        fields[field] = chance.choice(CHOICES[field])
    return fields


def expectation(chance: random.Random, model: Model, name: str) -> Body:
    count = len(model.key(name).versions)
    return {"expect_version": chance.choice((0, count, max(count - 1, 0)))} if chance.random() < 0.3 else {}


def fields_of(chance: random.Random, model: Model, operation: str, name: str) -> Body:
    if operation == "put":
        return put_fields(chance, model, name)
    fields = expectation(chance, model, name)
    if operation == "patch":
        fields["patch"] = chance.choice(PATCHES)
    elif operation == "restore" and chance.random() < 0.7:
        fields["version"] = chance.randint(1, len(model.key(name).versions) + 1)
    return fields


async def outcome(agent: Agent, operation: str, body: Body, id: str) -> tuple[int, bool] | int:
    try:
        answer = await agent.ask(operation, body, id=id)
    except Refused as refused:
        return refused.code
    assert answer["duplicate"] is False
    return answer["version"], answer["created"]


async def write(
    bot: Agent, chance: random.Random, model: Model, operation: str, id: str
) -> tuple[str, Agent, Body, str]:
    agent, name = bot.called(chance.choice(AGENTS)), chance.choice(NAMES)
    fields = fields_of(chance, model, operation, name)
    expected = model.write(operation, agent.name, name, fields)
    body = {"namespace": NAMESPACE, "key": name, **fields}
    assert await outcome(agent, operation, body, id) == expected, (operation, body)
    return operation, agent, body, id


async def write_batch(bot: Agent, chance: random.Random, model: Model, id: str) -> tuple[str, Agent, Body, str]:
    agent = bot.called(chance.choice(AGENTS))
    puts: list[Body] = []
    expected: list[tuple[int, bool] | int] = []
    for _ in range(chance.randint(1, 6)):
        name = chance.choice(NAMES)
        fields = put_fields(chance, model, name)
        expected.append(model.write("put", agent.name, name, fields))
        puts.append({"namespace": NAMESPACE, "key": name, **fields})
    results = (await agent.ask("put_batch", puts=puts, id=id))["results"]
    assert [
        result["error"]["code"] if result["error"] else (result["version"], result["created"]) for result in results
    ] == expected, puts
    return "put_batch", agent, {"puts": puts}, id


async def repeat(done: tuple[str, Agent, Body, str]) -> None:
    """Repeat a successful write, which is answered again. A refused one may be allowed by now, so skip it."""
    operation, agent, body, id = done
    answer = await agent.ask(operation, body, id=id)
    results = answer["results"] if operation == "put_batch" else [answer]
    assert all(result["duplicate"] for result in results)


async def check(bot: Agent, model: Model) -> None:
    for name, key in model.keys.items():
        found = await bot.versions(name) if key.versions else []
        assert [{field: version[field] for field in SEEN} for version in found] == [
            {field: version[field] for field in SEEN} for version in key.versions
        ]
        told = await bot.feed(f"memory.user.alice.%k.{name}")
        assert [change.body["version"] for change in told] == list(range(1, len(key.versions) + 1))
        for created, version in zip(_births(found), found, strict=True):
            assert version["created_at"] == created
    living = sorted(name for name, key in model.keys.items() if key.living is not None)
    assert await bot.keys() == living


def _births(versions: list[Body]) -> list[str]:
    """Return the beginning of the life of each version; a restore continues the life of its source."""
    births: list[str] = []
    for place, version in enumerate(versions):
        before = versions[place - 1] if place else None
        if version["operation"] == "restore":
            births.append(version["created_at"])
        elif before is None or (before["deleted"] and version["operation"] == "put"):
            births.append(version["updated_at"])
        else:
            births.append(births[-1])
    return births


@pytest.mark.parametrize("seed", range(4))
async def test_random_writes_do_what_the_model_says(bot: Agent, seed: int) -> None:
    chance, model = random.Random(seed), Model()
    done: list[tuple[str, Agent, Body, str]] = []
    for number in range(150):
        operation, id = chance.choice(OPERATIONS), bot.id(f"m{number}")
        before = {name: len(key.versions) for name, key in model.keys.items()}
        if operation == "again":
            if done:
                await repeat(chance.choice(done))
            continue
        if operation == "put_batch":
            made = await write_batch(bot, chance, model, id)
            wanted = len(made[2]["puts"])
        else:
            made = await write(bot, chance, model, operation, id)
            wanted = 1
        written = sum(len(key.versions) for key in model.keys.values()) - sum(before.values())
        if written == wanted:
            done.append(made)
    await check(bot, model)
