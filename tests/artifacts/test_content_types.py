"""The content type comes from the file's bytes, the stated type and the file name, in this order."""

import gzip
import io
import zipfile

import pytest

from hivemem_artifacts.endpoints.content_types import SNIFFED_BYTES, content_type_of, is_text

from .hive import Agent

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 20
BINARY = bytes(range(256)) * 4
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", "b")
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "name", "said", "expected"),
    [
        (PNG, "a.png", None, "image/png"),
        (PNG, "a.txt", "text/plain", "image/png"),
        (b"\xff\xd8\xff\xe0" + b"\x00" * 20, "a", None, "image/jpeg"),
        (b"GIF89a" + b"\x00" * 20, "a.html", None, "image/gif"),
        (b"%PDF-1.7\n", "a", "application/octet-stream", "application/pdf"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "a", None, "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "a", None, "audio/wav"),
        (gzip.compress(b"x", mtime=0), "a.gz", None, "application/gzip"),
        (zipped(), "a.zip", None, "application/zip"),
        (zipped(), "a.docx", None, DOCX),
        (zipped(), "a", DOCX, DOCX),
        (zipped(), "a.png", "image/png", "application/zip"),
        (b"plain words", "a", None, "text/plain; charset=utf-8"),
        (b"plain words", "a.png", "image/png", "text/plain; charset=utf-8"),
        (b"a,b\n1,2\n", "a.csv", None, "text/csv; charset=utf-8"),
        (b'{"a": 1}', "a.json", None, "application/json"),
        (b'{"a": 1}', "a", "application/json", "application/json"),
        (b"# A title", "a.md", None, "text/markdown; charset=utf-8"),
        (b"words", "a.txt", "text/plain; charset=us-ascii", "text/plain; charset=us-ascii"),
        (b"<!DOCTYPE html><html>", "a.txt", None, "text/html; charset=utf-8"),
        (b"  <html lang='en'>", "a", None, "text/html; charset=utf-8"),
        (b"<?xml version='1.0'?><svg xmlns='x'>", "a", None, "image/svg+xml"),
        (b"<?xml version='1.0'?><a/>", "a", None, "application/xml"),
        ("größe ".encode() * 999, "a", None, "text/plain; charset=utf-8"),
        (BINARY, "a", None, "application/octet-stream"),
        (BINARY, "a.txt", "text/plain", "application/octet-stream"),
        (BINARY, "a", "application/x-own", "application/x-own"),
        (b"", "a.txt", None, "text/plain"),
        (b"", "a", "text/csv", "text/csv"),
        (b"", "a", None, "application/octet-stream"),
    ],
)
def test_the_bytes_go_before_what_is_said_and_the_name(data: bytes, name: str, said: str | None, expected: str) -> None:
    assert content_type_of(data[:SNIFFED_BYTES], name, said) == expected


def test_text_may_end_within_a_character() -> None:
    assert is_text("aé".encode()[:2])
    assert is_text("a🐝".encode()[:4])
    assert not is_text(b"a\xff")
    assert not is_text(b"a\xc3b")
    assert not is_text(b"a\x00")


@pytest.mark.asyncio(loop_scope="session")
async def test_the_worker_looks_at_the_bytes_however_they_came(bot: Agent) -> None:
    assert (await bot.save("a.txt", PNG, content_type="text/plain"))["content_type"] == "image/png"
    upload = await bot.begin("b.txt", content_type="text/plain")
    await bot.chunk(upload, 0, PNG)
    assert (await bot.ask("commit", upload_id=upload["upload_id"]))["content_type"] == "image/png"
    upload = await bot.begin("c.txt", sha256=(await bot.stat("a.txt"))["sha256"])
    assert (await bot.ask("commit", upload_id=upload["upload_id"]))["content_type"] == "image/png"


@pytest.mark.asyncio(loop_scope="session")
async def test_what_is_no_content_type_is_refused(bot: Agent) -> None:
    refused = await bot.refusal("save", session_id="s1", name="a", data_base64="", content_type="text/html\r\nX-Y: z")
    assert (refused.code, refused.context["field"]) == (40001, "content_type")
