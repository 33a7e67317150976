"""Resources in files: declared at once or not at all, and every error with its place."""

from pathlib import Path

import pytest

import hivemem
from hivemem.window_files import apply_resources, read_resources

from .conftest import Fleet, Writer

pytestmark = pytest.mark.asyncio(loop_scope="session")

SUPPORT = "id: support\ntype: token\nkey: 'user:{{ user_id }}'\nmax_tokens: 1000\n"


async def apply(hive: hivemem.Hive, folder: Path, *, dry_run: bool = False) -> list[tuple[str, str, int]]:
    found = apply_resources(hive, read_resources([folder]), dry_run=dry_run)
    return [(each.id, each.outcome, each.version) async for each in found]


async def test_resources_of_a_folder_are_declared_once(fleet: Fleet, writer: Writer, tmp_path: Path) -> None:
    (tmp_path / "support.yaml").write_text(f"{SUPPORT}---\nid: team\ntype: message\nkey: team\nmax_messages: 5\n")
    (tmp_path / "deep").mkdir()
    notes = tmp_path / "deep" / "notes.json"
    notes.write_text('{"id": "notes", "type": "buffer", "key": "n", "max_messages": 5, "eviction": "lru"}')
    address = fleet.client.connected_url
    assert address is not None
    async with hivemem.connect(address.geturl(), tenant=writer.tenant) as hive:
        created = [("notes", "created", 1), ("support", "created", 1), ("team", "created", 1)]
        assert await apply(hive, tmp_path, dry_run=True) == [(id, outcome, 0) for id, outcome, _ in created]
        assert await apply(hive, tmp_path) == created
        notes.write_text('{"id": "notes", "type": "buffer", "key": "n", "max_messages": 6}')
        changed = [("notes", "updated", 2), ("support", "unchanged", 1), ("team", "unchanged", 1)]
        assert await apply(hive, tmp_path, dry_run=True) == [("notes", "updated", 1), *changed[1:]]
        assert await apply(hive, tmp_path) == changed

        (tmp_path / "support.yaml").write_text(f"{SUPPORT}allocation: {{system: 0.9, long_term: 0, short_term: 0}}\n")
        with pytest.raises(hivemem.InvalidRequest, match=r"support\.yaml:5:13: resource\.allocation: .* got 0\.9"):
            await apply(hive, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SUPPORT.replace("max_tokens", "max_token"), r"s\.yaml:4:1: max_token: no such field \(did you mean"),
        (f"{SUPPORT}---\n{SUPPORT}", r"s\.yaml:6:5: id: \"support\" is there twice, first at .*s\.yaml:1:5"),
        (f"{SUPPORT}eviction: random\n", r"s\.yaml:5:11: eviction: .* got \"random\""),
    ],
)
async def test_an_error_names_the_line_and_the_column(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(hivemem.InvalidRequest, match=said):
        read_resources([tmp_path])
