"""The generated documents are up to date, self-contained, and cover every operation."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from hivemem_contracts.__main__ import main
from hivemem_contracts.catalog import CHANGES, SERVICES
from hivemem_contracts.changes import Change
from hivemem_contracts.documents.folder import BrokenPageError, stale, write
from hivemem_contracts.documents.shapes import fields
from hivemem_contracts.errors import ALL_ERRORS, error_from_body
from hivemem_contracts.large_values import require_own
from hivemem_contracts.limits import VALUE_BYTES
from hivemem_contracts.sessions.replies import EventPage, StateView
from hivemem_contracts.sessions.requests import GetSession

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGE = "contract.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / PAGE).write_text((DOCS / PAGE).read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def asyncapi() -> dict[str, Any]:
    return read(DOCS / "asyncapi.json")


def read(file: Path) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(file.read_text(encoding="utf-8")))


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            if name == "$ref" and isinstance(inner, str):
                yield inner
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from references(inner)


def resolve(document: Any, reference: str) -> Any:
    assert reference.startswith("#/")
    for part in reference[2:].split("/"):
        document = document[part]
    return document


def test_the_documents_are_fresh() -> None:
    assert stale(DOCS) == [], "run `python -m hivemem_contracts docs/`"


def test_what_is_written_is_fresh_and_written_once(folder: Path) -> None:
    assert "asyncapi.json" in write(folder)
    assert stale(folder) == []
    assert write(folder) == []


def test_what_is_missing_changed_or_left_over_is_named(folder: Path) -> None:
    write(folder)
    (folder / "asyncapi.json").write_text("{}\n", encoding="utf-8")
    (folder / "schemas" / "error.json").unlink()
    (folder / "schemas" / "sessions.conjure.request.json").write_text("{}\n", encoding="utf-8")
    page = folder / PAGE
    page.write_text(page.read_text(encoding="utf-8").replace("| 40001 |", "| 40000 |"), encoding="utf-8")
    names = ["asyncapi.json", PAGE, "schemas/error.json", "schemas/sessions.conjure.request.json"]
    assert stale(folder) == names
    assert write(folder) == names
    assert stale(folder) == []
    assert not (folder / "schemas" / "sessions.conjure.request.json").exists()


def test_writing_leaves_the_prose_alone(folder: Path) -> None:
    page = folder / PAGE
    page.write_text(page.read_text(encoding="utf-8") + "\nMore words.\n", encoding="utf-8")
    assert write(folder)
    assert PAGE not in stale(folder)
    assert page.read_text(encoding="utf-8").endswith("\nMore words.\n")


@pytest.mark.parametrize("damage", ["<!-- generated: errors -->", "<!-- end of limits -->"])
def test_a_page_without_its_markers_is_no_page(folder: Path, damage: str) -> None:
    page = folder / PAGE
    page.write_text(page.read_text(encoding="utf-8").replace(damage, ""), encoding="utf-8")
    with pytest.raises(BrokenPageError, match="generated parts"):
        write(folder)


def test_the_command_writes_and_checks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", str(folder)]) == 1
    assert f"out of date: {folder / 'asyncapi.json'}" in capsys.readouterr().out
    assert main([str(folder)]) == 0
    assert f"written: {folder / 'asyncapi.json'}" in capsys.readouterr().out
    assert main(["--check", str(folder)]) == 0
    assert capsys.readouterr().out == ""
    assert main(["--check", str(folder / "nowhere")]) == 1
    assert "is missing" in capsys.readouterr().err


def test_the_documents_do_not_depend_on_the_process(folder: Path) -> None:
    write(folder)
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-m", "hivemem_contracts", "--check", str(folder)],
            check=False,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "contracts")},
        )
        assert (run.returncode, run.stdout) == (0, "")


def test_every_body_has_a_schema_that_is_whole_in_itself() -> None:
    names = {"change", "error", "window.resource"} | {f"change.{kind.full_name}" for kind in CHANGES}
    for service in SERVICES:
        for operation in service:
            names |= {f"{operation.full_name}.request", f"{operation.full_name}.reply"}
    files = list((DOCS / "schemas").iterdir())
    assert {file.name for file in files} == {f"{name}.json" for name in names}
    for file in files:
        schema = read(file)
        assert schema["$schema"].startswith("https://json-schema.org/")
        for reference in references(schema):
            resolve(schema, reference)


def test_a_schema_says_how_large_a_value_may_be() -> None:
    event = read(DOCS / "schemas" / "sessions.append.request.json")["$defs"]["NewEvent"]["properties"]
    assert event["content"]["description"] == (
        f"Any JSON, or the reference to a large value. At most {VALUE_BYTES:,} bytes as JSON in UTF-8."
    )


def test_the_tables_have_types_and_defaults() -> None:
    assert fields(GetSession) == "{session_id: Id, events?: int = 0, revision?: int, at?: Time}"
    assert fields(StateView) == "{state?: {text: Json}, value?: Json, exists?: bool, revision: int}"
    assert fields(EventPage) == "{items: [Event], cursor: text or null}"


def test_the_error_schema_has_the_table_of_codes() -> None:
    *known, newer = read(DOCS / "schemas" / "error.json")["properties"]["error"]["anyOf"]
    fixed = [{name: value["const"] for name, value in error["properties"].items()} for error in known]
    assert fixed == [{"code": error.code, "name": error.__name__, "retryable": error.retryable} for error in ALL_ERRORS]
    assert "properties" not in newer


def test_all_references_of_the_asyncapi_document_lead_somewhere(asyncapi: dict[str, Any]) -> None:
    found = set(references(asyncapi))
    assert found
    for reference in found:
        resolve(asyncapi, reference)


def test_the_asyncapi_document_has_every_operation(asyncapi: dict[str, Any]) -> None:
    expected = {f"change.{kind.full_name}" for kind in CHANGES} | {"dead"}
    for service in SERVICES:
        for operation in service:
            name = operation.full_name
            expected.add(name)
            address = asyncapi["channels"][name]["address"]
            assert address == f"hive.req.{{tenant}}.{{agent}}.{name}"
            assert asyncapi["operations"][name]["reply"]["channel"] == {"$ref": f"#/channels/{name}.reply"}
            if operation.durable:
                expected.add(f"{name}.durable")
                address = asyncapi["channels"][f"{name}.durable"]["address"]
                assert address == f"hive.in.{{tenant}}.{{agent}}.{name}.{{route}}"
    raw = {
        "artifacts.chunk": "{member}.{upload_id}",
        "artifacts.read": "{session_id}.{name}.{version}",
        "artifacts.workspace": "{workspace_id}",
    }
    for name, place in raw.items():
        assert asyncapi["channels"][name]["address"] == f"hive.req.{{tenant}}.{{agent}}.{name}.{place}"
    assert set(asyncapi["operations"]) == expected | set(raw)


def test_every_channel_explains_the_parameters_of_its_address(asyncapi: dict[str, Any]) -> None:
    for channel in asyncapi["channels"].values():
        tokens = (channel["address"] or "").split(".")
        named = {token[1:-1] for token in tokens if token.startswith("{")}
        assert set(channel.get("parameters", {})) == named


def test_the_server_is_nobodys(asyncapi: dict[str, Any]) -> None:
    assert [server["host"] for server in asyncapi["servers"].values()] == ["{host}:{port}"]


def test_the_version_is_that_of_the_distribution(asyncapi: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "contracts" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert asyncapi["info"]["version"] == project["version"]


def test_the_examples_of_the_page_are_valid() -> None:
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    examples = [json.loads(part.split("```")[0]) for part in text.split("```json\n")[1:]]
    assert error_from_body(examples[0]).body() == examples[0]
    require_own("acme", "s-1", examples[1], "event.content")
    assert Change.model_validate(examples[2]).model_dump(mode="json") == examples[2]
