"""The workers of one fleet react to one another's changes."""

from hivemem_testing.waiting import eventually

from .asking import ask, create_session, save
from .conftest import StartUp


async def test_deleting_a_session_deletes_its_files(start_up: StartUp) -> None:
    up = start_up().ready()
    await create_session(up.nats, "s1")
    await save(up.nats, "a.txt", b"one")
    await ask(up.nats, "delete", {"session_id": "s1"})

    async def gone() -> bool:
        answer = await ask(up.nats, "stat", {"session_id": "s1", "name": "a.txt"}, "artifacts")
        return bool(answer.get("error", {}).get("code") == 40401)

    await eventually(gone, "the file is deleted")
