"""A random history of a tenant's memories, run on the service and the model at once."""

import itertools
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from hivemem_contracts.identifiers import format_time

from .hive import Agent, Body, Refused, eventually, source
from .past_model import No, PastModel, Place, committed, shown
from .test_diff_values import applied, same

NAMESPACES: Final = ("user:a", "user:a:x", "user:a:x:y", "user:ab", "project:p", "project:p:x")
KEYS: Final = ("k", "l", "m:n")
PREFIXES: Final = ("user", "user:a", "user:a:x", "project", "project:p")
EXPIRES_MS: Final = 1_500
TASK: Final = source(task_id="t", agent_id="a", cycle=3, document="d/e")

Doing = Callable[[Place, str, str, Body], Body]


def moment(at: str) -> datetime:
    return datetime.fromisoformat(at)


def later(at: str, microseconds: int) -> str:
    return format_time(moment(at) + timedelta(microseconds=microseconds))


def now() -> str:
    return format_time(datetime.now(UTC))


class RandomHistory:
    """Each step sends one request to both and compares the answers; some requests are sent twice."""

    def __init__(self, bot: Agent, seed: int) -> None:
        self.agents = (bot, bot.called("eve"))
        self.bot = bot
        self.model = PastModel()
        self.random = random.Random(seed)
        self.number = 0
        self.refused: dict[int, int] = {}
        self.done: dict[str, int] = {}

    async def live(self, steps: int) -> None:
        doing: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self.put, 30),
            (self.patch, 12),
            (self.delete, 12),
            (self.restore, 12),
            (self.fork, 12),
            (self.expire, 2),
            (self.erase, 3),
            (self.look_back, 10),
        ]
        actions = [action for action, weight in doing for _ in range(weight)]
        for _ in range(steps):
            await self.random.choice(actions)()

    # Writes

    async def put(self) -> None:
        await self.write("put", self.model.put, {"value": self.value(), **self.content()})

    async def patch(self) -> None:
        await self.write("patch", self.model.patch, {"patch": self.value()})

    async def delete(self) -> None:
        await self.write("delete", self.model.delete, {})

    async def restore(self) -> None:
        version = self.random.choice((None, None, 1, 2, 3, 9))
        await self.write("restore", self.model.restore, {} if version is None else {"version": version})

    async def expire(self) -> None:
        """Put memories that expire at a moment, and wait for the versions that end them."""
        expires_at = later(now(), EXPIRES_MS * 1_000)
        for place in dict.fromkeys(self.place() for _ in range(3)):
            await self.write("put", self.model.put, {"value": self.value(), "expires_at": expires_at}, place)
        for place, versions in self.model.versions.items():
            if versions[-1]["expires_at"] == expires_at and not versions[-1]["deleted"]:
                await self.ended(place, versions[-1])

    async def ended(self, place: Place, version: Body) -> None:
        async def told() -> bool:
            found = await self.get(place, include_deleted=True)
            return bool(found["version"] > version["version"])

        await eventually(told, "the memory expires")
        found = await self.get(place, include_deleted=True)
        assert found["updated_at"] >= version["expires_at"]
        self.told(self.model.expire(place), found)

    async def erase(self) -> None:
        """Erase a memory; its next version is numbered after the last one."""
        place = self.place()
        versions = self.model.erase(place)
        self.number += 1
        body = {"namespace": place[0], "key": place[1]}
        if not versions:
            assert (await self.bot.refusal("erase", body)).code == 40401
            return
        receipt = await self.patiently(self.bot, "erase", body)

        async def done() -> bool:
            return bool((await self.bot.ask("erasure", receipt=receipt["receipt"]))["status"] == "done")

        await eventually(done, "the erasure is done")
        receipt = await self.bot.ask("erasure", receipt=receipt["receipt"])
        assert (receipt["entries"], receipt["versions"]) == (1, versions)
        for operation in ("get", "history"):
            assert (await self.bot.refusal(operation, body)).code == 40401
        self.done["erase"] = self.done.get("erase", 0) + 1

    async def patiently(self, agent: Agent, operation: str, body: Body) -> Body:
        """Retry, since a key accepts no write until the erasure of its last life is announced."""
        while True:
            try:
                return await agent.ask(operation, body, id=f"m{self.number}")
            except Refused as refused:
                if not refused.error["retryable"]:
                    raise

    async def write(self, operation: str, expected: Doing, fields: Body, place: Place | None = None) -> None:
        place = place or self.place()
        if self.random.random() < 0.2:
            fields["expect_version"] = self.random.choice((0, self.model.last.get(place, 1), 2))
        agent = self.random.choice(self.agents)
        body = {"namespace": place[0], "key": place[1], **fields}
        both = await self.both(lambda: expected(place, now(), agent.name, fields), agent, operation, body)
        if both is None:
            return
        version, answer = both
        assert answer["version"] == version["version"]
        found = await self.get(place, include_deleted=True)
        self.told(version, found)
        assert answer["created"] is (version["created_at"] == version["updated_at"])

    def told(self, version: Body, found: Body) -> None:
        """Take over the version's time, and check all other fields."""
        committed(version, found["updated_at"])
        assert self.without_digest(found) == shown(version)
        self.done[version["operation"]] = self.done.get(version["operation"], 0) + 1

    async def fork(self) -> None:
        namespace, into = self.random.sample(NAMESPACES, 2)
        if self.random.random() < 0.6:
            into = f"{into}:fork{self.number}"
        past = self.random.choice((None, self.some_moment()))
        at = past or now()
        body = {"namespace": namespace, "into": into, **({"as_of": past} if past else {})}
        agent = self.random.choice(self.agents)
        both = await self.both(lambda: self.model.fork(namespace, into, at, now(), agent.name), agent, "fork", body)
        if both is None:
            return
        copies, answer = both
        assert answer["entries"] == len(copies)
        assert past is None or answer["as_of"] == past
        for copied in copies:
            self.told(copied, await self.get((copied["namespace"], copied["key"])))

    async def both(
        self, expected: Callable[[], Any], agent: Agent, operation: str, body: Body
    ) -> tuple[Any, Body] | None:
        """Return the answers of the model and the service, or None if both refuse for the same reason."""
        try:
            wanted, code = expected(), 0
        except No as no:
            wanted, code = None, no.code
        self.number += 1
        if code:
            refusal = await agent.refusal(operation, body, id=f"m{self.number}")
            assert refusal.code == code, (operation, body, refusal)
            self.refused[code] = self.refused.get(code, 0) + 1
            return None
        answer: Body = {}
        for again in range(self.random.choice((1, 1, 1, 2))):
            answer = await self.patiently(agent, operation, body)
            assert answer["duplicate"] is bool(again)
        return wanted, answer

    # Reads

    async def get(self, place: Place, **fields: Any) -> Body:
        return await self.bot.ask("get", {"namespace": place[0], "key": place[1], **fields})

    async def look_back(self) -> None:
        if not self.model.versions:
            return
        place = self.random.choice(list(self.model.versions))
        await self.version_agrees(place, self.random.choice(self.model.versions[place]))
        at = self.some_moment()
        await self.moment_agrees(place, at)
        await self.snapshot_agrees(self.random.choice(PREFIXES), at)

    async def version_agrees(self, place: Place, version: Body) -> None:
        found = await self.get(place, version=version["version"], include_deleted=True)
        assert self.without_digest(found) == shown(version)
        if version["deleted"]:
            refused = await self.bot.refusal("get", namespace=place[0], key=place[1], version=version["version"])
            assert refused.code == 40401

    async def moment_agrees(self, place: Place, at: str) -> None:
        expected = self.model.living(place, at)
        if expected is None:
            refusal = await self.bot.refusal("get", namespace=place[0], key=place[1], as_of=at)
            assert refusal.code == 40401
        else:
            assert self.without_digest(await self.get(place, as_of=at)) == shown(expected)

    async def snapshot_agrees(self, prefix: str, at: str) -> None:
        limit = self.random.choice((2, 7, 1_000, 1_000))
        found = await self.bot.pages("snapshot", namespace=prefix, as_of=at, limit=limit)
        assert list(map(self.without_digest, found)) == list(map(shown, self.model.snapshot(prefix, at))), (prefix, at)

    async def diff_agrees(self, prefix: str, start: str, end: str) -> None:
        limit = self.random.choice((1, 3, 1_000, 1_000))
        found = await self.bot.pages("diff", **{"namespace": prefix, "from": start, "to": end, "limit": limit})
        expected = list(self.model.diff(prefix, start, end))
        assert [(change["namespace"], change["key"]) for change in found] == [place for place, _, _ in expected]
        for change, (_, before, after) in zip(found, expected, strict=True):
            word = "added" if before is None else "removed" if after is None else "changed"
            assert (change["change"], change["values_omitted"]) == (word, False)
            for side, version in (("before", before), ("after", after)):
                shown_side = change[side] and self.without_digest(change[side])
                assert shown_side == (version and shown(version))
            if before is not None and after is not None:
                assert same(applied(before["value"], change["diff"]), after["value"])

    async def history_agrees(self, place: Place) -> None:
        limit = self.random.choice((1, 2, 100))
        found = await self.bot.pages("history", namespace=place[0], key=place[1], diff=True, limit=limit)
        versions = self.model.versions[place]
        assert [line["version"] for line in found] == [version["version"] for version in reversed(versions)]
        values: Any = None
        for line, version in zip(reversed(found), versions, strict=True):
            own = {name: line.pop(name) for name in ("diff", "diff_omitted", "request_id", "operation")}
            assert self.without_digest(line) == shown(version)
            assert own["operation"] == version["operation"]
            values = self.value_after(values, own["diff"], version)

    @staticmethod
    def value_after(before: Any, diff: list[Body], version: Body) -> Any:
        """Return the value of a version, computed from its predecessor and the difference; a deletion has none."""
        root = [] if before is None else [before[0]]
        if version["deleted"]:
            assert [step["change"] for step in diff] == ["removed"]
            return None
        if not root:
            assert [step["change"] for step in diff] == ["added"]
            made = diff[0]["after"]
        else:
            made = applied(root[0], diff)
        assert same(made, version["value"])
        return (made,)

    async def list_agrees(self, prefix: str) -> None:
        at = now()
        expected = list(map(shown, self.model.snapshot(prefix, at)))
        found = await self.bot.pages("list", prefix=prefix, limit=self.random.choice((1, 3, 1_000)))
        assert list(map(self.without_digest, found)) == expected
        assert (await self.bot.ask("count", prefix=prefix))["count"] == len(expected)
        found = await self.bot.pages("list", prefix=prefix, sort="-updated_at", include_deleted=True)
        by_place = {(memory["namespace"], memory["key"]): self.without_digest(memory) for memory in found}
        assert by_place == {place: shown(self.model.versions[place][-1]) for place in self.model.below(prefix)}
        times = [memory["updated_at"] for memory in found]
        assert times == sorted(times, reverse=True)

    async def everything_agrees(self) -> None:
        for place, versions in self.model.versions.items():
            for version in versions:
                await self.version_agrees(place, version)
            await self.history_agrees(place)
        moments = self.moments()
        for at in moments:
            await self.snapshot_agrees(self.random.choice(PREFIXES), at)
            await self.diff_agrees(self.random.choice(PREFIXES), *sorted((at, self.random.choice(moments))))
            await self.moment_agrees(self.random.choice(list(self.model.versions)), at)
        for start, end in itertools.pairwise(moments):
            await self.diff_agrees("user", start, end)
        for prefix in PREFIXES:
            await self.list_agrees(prefix)

    def moments(self) -> list[str]:
        """Return each moment at which something changed, and the moment right before it."""
        found: set[str] = set()
        for versions in self.model.versions.values():
            for version in versions:
                for at in (version["updated_at"], version["expires_at"]):
                    if at is not None and at < now():
                        found |= {at, later(at, -1)}
        return sorted(found)

    def some_moment(self) -> str:
        return self.random.choice(self.moments() or [now()])

    def place(self) -> Place:
        return self.random.choice(NAMESPACES), self.random.choice(KEYS)

    def value(self) -> Any:
        number = self.number
        values = (None, number, "text", [number, {"a": 1}], {"a": number, "b": {"c": None}}, {"b": {"c": [1]}})
        return self.random.choice(values)

    def content(self) -> Body:
        """Return values for some of the other fields."""
        times = (None, "2026-01-01T00:00:00.000000Z", "2027-01-01T00:00:00.000000Z")
        choices: dict[str, tuple[Any, ...]] = {
            "memory_type": (None, "semantic", "episodic", "procedural"),
            "metadata": (None, {}, {"n": self.number}),
            "importance": (None, 0.0, 0.5, 1.0),
            "valid_from": times,
            "valid_to": times,
            "index": (None, False, ["a text"], ["two", "texts"]),
            "source": (None, source(session_id="s"), source(session_id="s", event_id="e"), TASK),
            "expires_at": (None, "2999-01-01T00:00:00.000000Z"),
        }
        names = self.random.sample(sorted(choices), self.random.randint(0, 3))
        return {name: self.random.choice(choices[name]) for name in names}

    @staticmethod
    def without_digest(memory: Body) -> Body:
        return {name: value for name, value in memory.items() if name != "digest"}
