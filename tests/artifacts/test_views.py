"""The view of a session for people, its files by time and name and the manifest, follows every change."""

import asyncio
import stat
from pathlib import Path
from typing import Any

import orjson
import pytest

from hivemem_artifacts.entities.places import session_and_name
from hivemem_artifacts.ports import NAMES_PER_CALL
from hivemem_artifacts.reactions.views import SessionViews

from .conftest import Deployment
from .hive import Agent, Body, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Shown:
    """Reads the view of a session, on either kind of store."""

    def __init__(self, deployment: Deployment, bot: Agent, session_id: str = "s1") -> None:
        self._deployment = deployment
        self._bot = bot
        self._session_id = session_id

    async def manifest(self) -> Body | None:
        texts = await asyncio.to_thread(self._manifests)
        found = [orjson.loads(text) for text in texts]
        wanted = (self._bot.tenant, self._session_id)
        own: list[Body] = [each for each in found if (each["tenant"], each["session_id"]) == wanted]
        assert len(own) <= 1
        return own[0] if own else None

    def _manifests(self) -> list[bytes]:
        if self._deployment.settings.blobs == "filesystem":
            return [path.read_bytes() for path in self._deployment.folder.rglob("manifest.json")]
        bucket = objects_of(self._deployment)
        return [text for name in bucket.names("manifests/") if (text := bucket.read(name)) is not None]

    async def names(self) -> list[str] | None:
        manifest = await self.manifest()
        return None if manifest is None else [item["name"] for item in manifest["items"]]

    async def until(self, names: list[str] | None) -> None:
        async def shown() -> bool:
            return await self.names() == names

        await eventually(shown, f"the manifest shows {names}")

    def folder(self) -> Path:
        manifests = [
            path
            for path in self._deployment.folder.rglob("manifest.json")
            if orjson.loads(path.read_bytes())["tenant"] == self._bot.tenant
        ]
        return manifests[0].parent

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder().iterdir() if path.name != "manifest.json"}


class Objects:
    """The bucket of a deployment, read with the worker's own client."""

    def __init__(self, settings: Any) -> None:
        from minio import Minio

        host = settings.minio_url.partition("://")[2]
        secret = settings.minio_secret_key.get_secret_value()
        self.client = Minio(host, settings.minio_access_key, secret, secure=False)
        self.bucket = settings.minio_bucket

    def names(self, prefix: str) -> list[str]:
        found = self.client.list_objects(self.bucket, prefix=prefix, recursive=True)
        return [str(each.object_name) for each in found]

    def read(self, name: str) -> bytes | None:
        """Return an object, or None if it was removed after it was listed."""
        from minio.error import S3Error

        try:
            answer = self.client.get_object(self.bucket, name)
        except S3Error as error:
            if error.code == "NoSuchKey":
                return None
            raise
        try:
            return answer.read()
        finally:
            answer.close()
            answer.release_conn()


def objects_of(deployment: Deployment) -> Objects:
    return Objects(deployment.settings)


async def test_a_session_is_shown_as_it_is(bot: Agent, deployment: Deployment) -> None:
    shown = Shown(deployment, bot)
    first = await bot.save("a.txt", b"1")
    await bot.save("a.txt", b"2")
    newest = await bot.save("b/c.txt", b"3")
    await shown.until(["a.txt", "b/c.txt"])

    async def newest_is_shown() -> bool:
        manifest = await shown.manifest()
        return manifest is not None and [item["version"] for item in manifest["items"]] == [2, 1]

    await eventually(newest_is_shown, "the newest versions are shown")
    manifest = await shown.manifest()
    assert manifest is not None
    assert manifest["items"][1] == {
        "name": "b/c.txt",
        "url": newest["url"],
        "timestamp": newest["created_at"],
        "size": 1,
        "sha256": newest["sha256"],
        "version": 1,
        "content_type": newest["content_type"],
    }
    answered = await bot.ask("manifest", session_id="s1")
    assert answered["items"] == manifest["items"]
    if deployment.settings.blobs == "filesystem":
        await eventually(lambda: sorted(shown.files().values()) == [b"1", b"2", b"3"], "every version is shown")
        assert any(name.endswith("_a.txt") for name in shown.files())
        moment = first["created_at"]
        assert any(name.startswith(moment[:4]) for name in shown.files())


async def test_what_is_deleted_is_not_shown_any_more(bot: Agent, deployment: Deployment) -> None:
    shown = Shown(deployment, bot)
    for name in ("a", "b"):
        await bot.save(name, name.encode())
    await shown.until(["a", "b"])
    await bot.ask("delete", session_id="s1", name="a")
    await shown.until(["b"])
    await bot.ask("delete", session_id="s1", name="b")
    await shown.until(None)


async def test_a_long_session_is_shown_whole(
    bot: Agent, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hivemem_artifacts.reactions.views.HEADS_AT_ONCE", 7)
    monkeypatch.setattr("hivemem_artifacts.reactions.views.VERSIONS_AT_ONCE", 3)
    monkeypatch.setattr("hivemem_artifacts.reactions.views.NAMES_PER_CALL", 5)
    assert NAMES_PER_CALL > 5
    for n in range(20):
        await bot.save("many", f"{n}".encode())
    await asyncio.gather(*(bot.save(f"{n:02}", f"{n}".encode()) for n in range(20)))
    shown = Shown(deployment, bot)
    await shown.until([*(f"{n:02}" for n in range(20)), "many"])
    if deployment.settings.blobs == "filesystem":
        await eventually(lambda: len(shown.files()) == 40, "every version is shown")


async def test_files_are_for_their_owner_only(bot: Agent, deployment: Deployment) -> None:
    if deployment.settings.blobs != "filesystem":
        pytest.skip("an object store shows a manifest alone, and has no modes and no links")
    shown = Shown(deployment, bot)
    await bot.save("a", b"1")
    upload = await bot.begin("b")
    await bot.chunk(upload, 0, b"xyz")
    await shown.until(["a"])
    ours = [deployment.folder / name for name in ("blobs", "staging", "artifacts", "tenants")]
    for path in (*ours, *(found for folder in ours for found in folder.rglob("*"))):
        if not path.exists():
            continue  # another test has discarded its staging
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
        assert not path.is_symlink()


async def test_a_view_that_was_spoiled_comes_out_right_with_the_next_change(bot: Agent, deployment: Deployment) -> None:
    if deployment.settings.blobs != "filesystem":
        pytest.skip("an object store shows a manifest alone, and has no modes and no links")
    shown = Shown(deployment, bot)
    await bot.save("a", b"1")
    await shown.until(["a"])
    folder = shown.folder()
    await eventually(lambda: len(shown.files()) == 1, "the file is shown")
    for path in folder.iterdir():
        if path.name != "manifest.json":
            path.unlink()
    await bot.save("b", b"2")
    await shown.until(["a", "b"])
    await eventually(lambda: sorted(shown.files().values()) == [b"1", b"2"], "both are shown")


async def test_a_save_reads_the_versions_of_its_own_file_only(
    bot: Agent, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reads for an update do not grow with the versions of the other files of the session."""
    views = SessionViews(bot.ledger, deployment.store)
    for name in ("a", "b", "c"):
        for n in range(3):
            await bot.save(name, f"{n}".encode())
    await views.show_session(bot.tenant, "s1")
    history = bot.ledger.history
    read: list[str] = []

    async def counted(entity: Any, tenant: str, id: str, **options: Any) -> Any:
        if tenant == bot.tenant:
            read.append(session_and_name(id)[1])
        return await history(entity, tenant, id, **options)

    monkeypatch.setattr(bot.ledger, "history", counted)
    await views.show_session(bot.tenant, "s1")
    assert read == []
    await bot.save("b", b"new")
    await views.show_session(bot.tenant, "s1")
    assert set(read) <= {"b"}


async def test_views_of_many_at_once_end_with_the_newest(bot: Agent, deployment: Deployment) -> None:
    """Several workers update the view of one session while it changes."""
    views = SessionViews(bot.ledger, deployment.store)
    for n in range(5):
        await asyncio.gather(
            bot.save(f"f{n}", b"x"),
            *(views.show_session(bot.tenant, "s1") for _ in range(3)),
        )
    await Shown(deployment, bot).until([f"f{n}" for n in range(5)])
