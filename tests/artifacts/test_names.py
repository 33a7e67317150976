"""Names that try to leave their folder, against the running worker."""

import orjson
import pytest

from hivemem_testing.names import GOOD_NAMES, HOSTILE_NAMES

from .conftest import Deployment
from .hive import Agent, Refused, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOSTILE_SESSIONS = (
    "..",
    ".",
    "../..",
    "/etc",
    "a/../../b",
    "C:\\x",
    "~",
    "con",
    "a\\b",
    "-rf",
    "%2e%2e",
    "x" * 256,
    "é" * 200,
)


async def test_a_hostile_name_is_refused_by_every_operation(bot: Agent) -> None:
    for name in HOSTILE_NAMES:
        if "\ud800" in name:
            continue  # it cannot be encoded as UTF-8
        for operation in ("save", "begin", "get", "stat", "versions", "delete"):
            data = {"data_base64": ""} if operation == "save" else {}
            refused = await bot.refusal(operation, session_id="s1", name=name, **data)
            assert (refused.code, refused.context["field"]) == (40001, "name"), (operation, name)
    assert await bot.pages("list") == []


async def test_half_of_a_surrogate_pair_is_refused(bot: Agent) -> None:
    with pytest.raises(Refused) as refused:
        await bot.send("save", b'{"session_id": "s1", "name": "\\ud800", "data_base64": ""}')
    assert refused.value.code == 40001


async def test_honest_names_and_hostile_sessions_stay_in_the_folder(bot: Agent, deployment: Deployment) -> None:
    before = everything(deployment)
    for session_id in HOSTILE_SESSIONS:
        for name in GOOD_NAMES[:6]:
            await bot.save(name, b"x", session_id=session_id)
    for name in GOOD_NAMES:
        await bot.save(name, name.encode())
        assert await bot.content(name) == name.encode()
    assert sorted(item["name"] for item in await bot.pages("list")) == sorted(GOOD_NAMES)
    if deployment.settings.blobs == "filesystem":
        await eventually(lambda: len(manifests(deployment, bot)) == len(HOSTILE_SESSIONS) + 1, "all is shown")
        assert everything(deployment) == before


def everything(deployment: Deployment) -> set[str]:
    """Return all paths in the data folder next to the folder of the artifacts."""
    data = deployment.settings.data
    return {str(path.relative_to(data)) for path in data.iterdir() if "artifacts.db" not in path.name}


def manifests(deployment: Deployment, bot: Agent) -> list[str]:
    found = [orjson.loads(path.read_bytes()) for path in deployment.folder.rglob("manifest.json")]
    return [manifest["session_id"] for manifest in found if manifest["tenant"] == bot.tenant]
