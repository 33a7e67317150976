"""Sessions are listed by every combination of filters, newest first, with an index for each."""

import base64
import itertools

import orjson
import pytest

from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_sessions.entities import ENTITIES

from .hive import Agent, Body

pytestmark = pytest.mark.asyncio(loop_scope="session")

USERS = ("ann", "bob")
APPS = ("desk", "web")
PROJECTS = ("p", None)
SORTS = (None, "-created_at", "-updated_at")
STATUSES = ("created", "active", "paused", "terminated", "archived")
WAYS = {"created": (), "active": ("active",), "paused": ("active", "paused"), "terminated": ("terminated",)}
WAYS["archived"] = ("terminated", "archived")


async def populated(bot: Agent) -> list[Body]:
    """A session of every combination, newest last."""
    made: list[Body] = []
    for user, app, project, status in itertools.product(USERS, APPS, PROJECTS, STATUSES):
        session_id = f"{user}-{app}-{project}-{status}"
        await bot.create(session_id, user_id=user, app_name=app, project_id=project)
        for step in WAYS[status]:
            await bot.ask("set_status", session_id=session_id, status=step)
        made.append(await bot.session(session_id))
    return made


async def listed(bot: Agent, **fields: object) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await bot.ask("list", {**fields, **({"cursor": cursor} if cursor else {})})
        found += [item["session_id"] for item in page["items"]]
        cursor = page["cursor"]
        if cursor is None:
            return found


async def test_every_combination_of_filters(bot: Agent) -> None:
    made = await populated(bot)
    for session in made[::7]:
        moved = await bot.ask("update", session_id=session["session_id"], metadata={"moved": True})
        session["updated_at"] = moved["updated_at"]
    choices = itertools.product(
        (None, "ann", "nobody"), (None, "web"), (None, "p"), (None, "paused"), (None, True, False), SORTS
    )
    for user, app, project, status, active, sort in choices:
        named = {"user_id": user, "app_name": app, "project_id": project, "status": status, "active": active}
        fields: Body = {name: value for name, value in named.items() if value is not None}
        expected = [
            session
            for session in made
            if all(session[name] == value for name, value in fields.items() if name != "active")
            and (active is None or active == (session["status"] in ("created", "active", "paused")))
        ]
        by_update = (
            set(fields) <= {"status", "active"} and status is not None if sort is None else sort == "-updated_at"
        )
        expected.sort(key=lambda session: session["updated_at" if by_update else "created_at"], reverse=True)
        wanted = [session["session_id"] for session in expected]
        fields |= {} if sort is None else {"sort": sort}
        assert await listed(bot, **fields, limit=3) == wanted, fields


async def test_by_status_the_last_updated_comes_first(bot: Agent) -> None:
    for session_id in ("a", "b", "c"):
        await bot.create(session_id)
        await bot.append(session_id)
    await bot.append("a")
    assert await listed(bot, status="active") == ["a", "c", "b"]
    assert await listed(bot) == ["c", "b", "a"]


async def test_a_session_that_is_updated_between_pages_moves_ahead_of_the_cursor(bot: Agent) -> None:
    for session_id in ("a", "b", "c", "d"):
        await bot.create(session_id)
    first = await bot.ask("list", app_name="app", sort="-updated_at", limit=2)
    assert [item["session_id"] for item in first["items"]] == ["d", "c"]
    await bot.append("d")
    await bot.append("a")
    rest = await bot.ask("list", app_name="app", sort="-updated_at", cursor=first["cursor"])
    assert [item["session_id"] for item in rest["items"]] == ["b"]
    assert (await listed(bot, app_name="app", sort="-updated_at"))[0] == "a"
    refused = await bot.refusal("list", app_name="app", sort="-created_at", cursor=first["cursor"])
    assert (refused.code, refused.context["field"]) == (40001, "cursor")


async def test_listed_sessions_are_whole(bot: Agent) -> None:
    await bot.create("a", project_id="p", initial_state={"x": 1, "user:u": 1, "project:p": 1}, metadata={"m": 1})
    await bot.create("b", user_id="other", initial_state={"app:a": 1})
    items = (await bot.ask("list"))["items"]
    assert items == [await bot.session("b"), await bot.session("a")]
    assert items[1]["state"] == {"x": 1, "user:u": 1, "project:p": 1, "app:a": 1}


async def test_a_page_of_large_sessions_is_cut_and_goes_on(bot: Agent) -> None:
    await bot.create("scopes", initial_state={"user:large": "x" * 150_000, "app:large": "y" * 50_000})
    for n in range(7):
        await bot.create(f"s{n}", metadata={"m": "z" * 90_000}, initial_state={"own": "x" * 60_000})
    first = await bot.ask("list")
    assert 0 < len(first["items"]) < 8
    assert await listed(bot) == [*(f"s{n}" for n in range(6, -1, -1)), "scopes"]


async def test_pages_go_on_past_what_does_not_fit_the_filters(bot: Agent) -> None:
    await bot.create("rare", user_id="one")
    await bot.ask("set_status", session_id="rare", status="active")
    for n in range(60):
        await bot.create(f"s{n}", user_id="one")
    first = await bot.ask("list", user_id="one", status="active", limit=2)
    assert first["items"] == []
    assert first["cursor"] is not None
    assert await listed(bot, user_id="one", status="active", limit=2) == ["rare"]


def forged(*parts: object) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(parts)).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "?",
        "AAAA",
        forged("user", 5, "s"),
        forged("creation", 5),
        forged("creation", None, "s"),
        forged("events", False, 5),
    ],
)
async def test_a_cursor_of_another_list_is_refused(bot: Agent, cursor: str) -> None:
    refused = await bot.refusal("list", cursor=cursor)
    assert (refused.code, refused.context["field"]) == (40001, "cursor")


async def test_a_forged_place_does_no_harm(bot: Agent) -> None:
    await bot.create("a")
    assert (await bot.ask("list", cursor=forged("creation", -1, "s")))["items"] == []
    for place in (2**63, 2**64 - 1, 1.5, [1]):
        assert (await bot.refusal("list", cursor=forged("creation", place, "s"))).context["field"] == "cursor"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 1_001}, "limit"),
        ({"limit": "5"}, "limit"),
        ({"active": 1}, "active"),
        ({"status": "asleep"}, "status"),
        ({"user_id": ""}, "user_id"),
        ({"cursor": ""}, "cursor"),
        ({"sort": "name"}, "sort"),
    ],
)
async def test_what_is_no_filter_is_refused_by_name(bot: Agent, fields: Body, field: str) -> None:
    refused = await bot.refusal("list", **fields)
    assert (refused.code, refused.context["field"]) == (40001, field)


@pytest.mark.parametrize(
    ("entity", "index"),
    [(entity, index.name) for entity in ENTITIES for index in entity.indexes],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
async def test_no_declared_index_scans(bot: Agent, entity: AnyEntity, index: str) -> None:
    plan = await bot.ledger.explain(entity, index)
    assert any(step.startswith(("SEARCH", "IXSCAN")) for step in plan), plan
    assert not [step for step in plan if step.split()[0] in ("SCAN", "COLLSCAN", "SORT") or "TEMP B-TREE" in step], plan


async def test_the_queries_that_were_asked_for_have_an_index_each() -> None:
    declared = {(index.equals, index.order) for entity in ENTITIES for index in entity.indexes}
    assert {
        (("status",), "updated_at"),
        (("user_id",), "created_at"),
        (("project_id",), "created_at"),
        (("app_name", "user_id"), "created_at"),
        (("user_id",), "updated_at"),
    } <= declared
