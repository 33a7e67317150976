"""Artifacts on the wire: names that cannot leave their folder, URLs, the subjects of chunks, the operations."""

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from hivemem_contracts.artifacts import requests
from hivemem_contracts.artifacts.chunks import (
    commit_subject,
    commits_pattern,
    content_subject,
    parse_content_subject,
    parse_upload_subject,
    upload_subject,
    uploads_pattern,
)
from hivemem_contracts.artifacts.models import Artifact, ContentType, Upload
from hivemem_contracts.artifacts.names import ArtifactName
from hivemem_contracts.artifacts.operations import ARTIFACTS
from hivemem_contracts.artifacts.urls import ArtifactUrl, parse_url
from hivemem_contracts.errors import InvalidRequest, TooLarge
from hivemem_contracts.limits import ARTIFACT_DATA_CHARACTERS
from hivemem_contracts.model import decode_body
from hivemem_contracts.subjects import Sender
from hivemem_testing.names import GOOD_NAMES, HOSTILE_NAMES

NAMES = TypeAdapter[str](ArtifactName)
TYPES = TypeAdapter[str](ContentType)

REQUESTS = {
    "save": "session_id name data_base64 content_type? metadata? sha256?",
    "begin": "session_id? name? workspace_id? size? sha256? content_type? metadata? presigned?",
    "resume": "upload_id",
    "commit": "upload_id sha256? size?",
    "abort": "upload_id",
    "get": "session_id name version? offset? length? presigned?",
    "stat": "session_id name version?",
    "list": "session_id prefix? limit? cursor?",
    "versions": "session_id name limit? cursor?",
    "delete": "session_id name",
    "manifest": "session_id limit? cursor?",
    "gc": "dry_run? grace_seconds?",
    "workspace_check": "workspace_id files",
    "workspace_save": "workspace_id blobs",
    "workspace_commit": "workspace_id files? list_sha256? agent_id? cycle? message? expect_version?",
    "workspace_get": "workspace_id version? prefix? limit? cursor?",
    "workspace_versions": "workspace_id limit? cursor?",
    "workspace_list": "limit? cursor?",
    "workspace_diff": "workspace_id start end limit? cursor?",
    "workspace_delete": "workspace_id",
}
ARTIFACT = (
    "artifact_id session_id name version size sha256 content_type metadata url created_by created_at workspace_id?"
)
UPLOAD = (
    "upload_id session_id name workspace_id? status chunk_subject chunk_bytes next_chunk expires_at stored put_url? "
    "artifact?"
)
REPLIES = {
    "begin": UPLOAD,
    "resume": UPLOAD,
    "abort": "upload_id aborted",
    "get": "artifact data_base64? offset chunk_subject chunk_bytes get_url? get_url_expires_at?",
    "list": "items cursor",
    "versions": "items cursor",
    "delete": "session_id name version deleted_at duplicate?",
    "manifest": "items cursor",
    "gc": "dry_run removed bytes kept done",
    "workspace_check": "missing",
    "workspace_save": "items",
    "workspace_commit": (
        "workspace_id version files bytes added changed removed created_by created_at agent_id? cycle? message?"
    ),
    "workspace_get": "workspace items cursor read_subject read_bytes",
    "workspace_versions": "items cursor",
    "workspace_list": "items cursor",
    "workspace_diff": "items cursor",
    "workspace_delete": "workspace_id version deleted_at duplicate?",
}


def is_name(value: str) -> bool:
    try:
        NAMES.validate_python(value)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
def test_a_hostile_name_is_refused(name: str) -> None:
    assert not is_name(name)


@pytest.mark.parametrize("name", GOOD_NAMES, ids=ascii)
def test_an_honest_name_is_taken_as_it_is(name: str) -> None:
    assert NAMES.validate_python(name) == name


def test_a_refusal_names_the_field_and_says_why() -> None:
    with pytest.raises(InvalidRequest, match=r"name: no '\.' and no '\.\.' as a segment") as refused:
        decode_body(requests.StatArtifact, b'{"session_id": "s", "name": "a/../b"}')
    assert refused.value.context["field"] == "name"


@given(st.text(max_size=40))
def test_a_name_that_is_taken_stays_in_its_folder(value: str) -> None:
    if not is_name(value):
        return
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        segments = unicodedata.normalize(form, value).split("/")
        assert len(segments) == value.count("/") + 1
        assert all(segment.strip(" .") or segment.strip(".") for segment in segments)
        assert not {"", ".", ".."} & set(segments)
    assert not any(unicodedata.category(character) == "Cc" for character in value)


@given(st.text(alphabet="ab./\\: \u2024\uff0f\x00~-", max_size=12))
def test_a_name_of_the_dangerous_characters_stays_in_its_folder(value: str) -> None:
    if is_name(value):
        assert not {"", ".", ".."} & set(unicodedata.normalize("NFKC", value).split("/"))


ids = (
    st.text(min_size=1, max_size=20)
    .map(str.strip)
    .filter(lambda text: bool(text) and not any(unicodedata.category(character) in ("Cc", "Cs") for character in text))
)


@given(ids, ids, st.sampled_from(GOOD_NAMES), st.none() | st.integers(min_value=1, max_value=2**53))
def test_a_url_says_what_it_was_made_of(tenant: str, session_id: str, name: str, version: int | None) -> None:
    url = ArtifactUrl(tenant, session_id, name, version)
    assert parse_url(str(url)) == url
    assert str(url).isascii()


def test_a_url_reads_like_one() -> None:
    assert str(ArtifactUrl("acme", "s 1", "reports/2026/größe.pdf", 3)) == (
        "hive://acme/s%201/reports/2026/gr%C3%B6%C3%9Fe.pdf?version=3"
    )


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hive://acme/s1",
        "hive://acme/s1/",
        "hive:///s1/a",
        "http://acme/s1/a",
        "hive://acme/s1/a?version=0",
        "hive://acme/s1/a?version=01",
        "hive://acme/s1/a?version=x",
        "hive://acme/s1/a?version=1&version=2",
        "hive://acme/s1/a?size=1",
        "hive://acme/s1/a#b",
        "hive://acme/s1/../a",
        "hive://acme/s1/%2e%2e/a",
        "hive://acme/s1/a%2F..%2Fb",
        "hive://acme/s1/a%00",
        "hive://acme/s1/%ff",
        "hive://[/s1/a",
    ],
)
def test_what_is_no_url_of_an_artifact_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_url(url)
    assert refused.value.context == {"field": "url"}


@given(ids, ids, ids, st.sampled_from(GOOD_NAMES), st.integers(min_value=1, max_value=2**53))
def test_a_subject_of_chunks_says_what_it_was_made_of(
    tenant: str, agent: str, session_id: str, name: str, version: int
) -> None:
    subject = content_subject(tenant, agent, session_id, name, version)
    assert parse_content_subject(subject) == (Sender(tenant, agent), (session_id, name, version))
    assert parse_upload_subject(upload_subject(tenant, agent, "m", session_id)) == (Sender(tenant, agent), session_id)


def test_chunks_go_to_the_member_that_has_the_upload() -> None:
    assert upload_subject("acme", "bot", "m1", "u1") == "hive.req.acme.bot.artifacts.chunk.m1.u1"
    assert uploads_pattern("m1") == "hive.req.*.*.artifacts.chunk.m1.*"
    assert commit_subject("acme", "bot", "m1", "u1") == "hive.req.acme.bot.artifacts.commit.m1.u1"
    assert commits_pattern("m1") == "hive.req.*.*.artifacts.commit.m1.*"
    assert content_subject("acme", "bot", "s1", "a/b.txt", 2) == "hive.req.acme.bot.artifacts.read.s1.a%2Fb%2Etxt.2"


@pytest.mark.parametrize("version", ["0", "-1", "x", "²", "1" * 30])
def test_no_version_is_version_nought(version: str) -> None:
    _, place = parse_content_subject(f"hive.req.acme.bot.artifacts.read.s1.a.{version}")
    assert place.version == 0


@pytest.mark.parametrize(
    "value", ["text/plain", "text/plain; charset=utf-8", "application/vnd.ms-excel", "image/svg+xml"]
)
def test_a_content_type_is_taken(value: str) -> None:
    assert TYPES.validate_python(value) == value


@pytest.mark.parametrize("value", ["", "text", "text/", "/plain", "text/plain\r\nX: y", "a/b/c", "tëxt/plain", "a b/c"])
def test_what_is_no_content_type_is_refused(value: str) -> None:
    with pytest.raises(ValidationError):
        TYPES.validate_python(value)


def test_data_past_its_limit_is_too_large() -> None:
    def body(characters: int) -> bytes:
        return b'{"session_id": "s", "name": "a", "data_base64": "' + b"A" * characters + b'"}'

    assert decode_body(requests.SaveArtifact, body(ARTIFACT_DATA_CHARACTERS)).name == "a"
    with pytest.raises(TooLarge) as refused:
        decode_body(requests.SaveArtifact, body(ARTIFACT_DATA_CHARACTERS + 1))
    assert refused.value.context["field"] == "data_base64"


def fields_of(model: Any) -> str:
    return " ".join(name if field.is_required() else f"{name}?" for name, field in model.model_fields.items())


def test_the_operations_are_those_of_the_contract() -> None:
    assert {operation.name: fields_of(operation.request) for operation in ARTIFACTS} == REQUESTS
    assert {operation.name: fields_of(operation.reply) for operation in ARTIFACTS} == {
        name: REPLIES.get(name, ARTIFACT) for name in REQUESTS
    }
    assert (fields_of(Artifact), fields_of(Upload)) == (ARTIFACT, UPLOAD)


def test_what_can_be_published_without_waiting_is_saving_committing_and_deleting() -> None:
    durable = {operation.name: operation.route for operation in ARTIFACTS if operation.durable}
    assert durable == {
        "save": "session_id",
        "delete": "session_id",
        "workspace_commit": "workspace_id",
        "workspace_delete": "workspace_id",
    }
