"""Clients exchange bytes with the store directly, by presigned URLs."""

import time
from collections.abc import Iterator

import pytest
import urllib3

from hivemem_artifacts.adapters.objects import ObjectBlobs, multipart
from hivemem_artifacts.ports import PIECE_BYTES, BlobStore
from hivemem_contracts.errors import InvalidRequest, NotFound, Unavailable

from .backends import Backend
from .content import TENANT, UPLOAD, digest, everything, put, some_bytes, whole


@pytest.fixture
def presigning(store: BlobStore) -> BlobStore:
    if not store.presigned.able:
        pytest.skip(store.presigned.reason)
    return store


@pytest.fixture
def http() -> Iterator[urllib3.PoolManager]:
    with urllib3.PoolManager() as pool:
        yield pool


async def test_a_store_without_urls_says_why(store: BlobStore) -> None:
    if store.presigned.able:
        assert not store.presigned.reason
        return
    assert store.presigned.reason
    with pytest.raises(InvalidRequest) as refused:
        await store.presign_put(UPLOAD, seconds=60)
    assert refused.value.context["field"] == "presigned"
    with pytest.raises(InvalidRequest):
        await store.open_presigned(UPLOAD, 10)
    with pytest.raises(InvalidRequest):
        await store.presign_get(TENANT, digest(b""), seconds=60, file_name="a", content_type="text/plain")


@pytest.mark.parametrize("size", [0, 5, 3 * PIECE_BYTES + 7])
async def test_what_a_client_put_becomes_a_blob(
    presigning: BlobStore, backend: Backend, http: urllib3.PoolManager, size: int
) -> None:
    data = some_bytes(size)
    url = await presigning.presign_put(UPLOAD, seconds=60)
    assert http.request("PUT", url, body=data).status == 200
    staging = await presigning.open_presigned(UPLOAD, size)
    assert (staging.size, staging.durable, staging.sha256) == (size, size, digest(data))
    with pytest.raises(InvalidRequest):
        await staging.append(b"more")
    await staging.seal(TENANT, staging.sha256)
    await staging.close()
    await presigning.discard(UPLOAD)
    assert await whole(presigning, digest(data)) == data
    assert len(backend.holds()) == 1


async def test_a_large_object_is_copied_in_parts(
    presigning: BlobStore, http: urllib3.PoolManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multipart, "PART_BYTES", 6 * 1024 * 1024)
    data = some_bytes(16 * 1024 * 1024)
    http.request("PUT", await presigning.presign_put(UPLOAD, seconds=60), body=data)
    staging = await presigning.open_presigned(UPLOAD, len(data))
    await staging.seal(TENANT, staging.sha256)
    assert await whole(presigning, digest(data)) == data


async def test_nothing_that_was_put_is_not_found(presigning: BlobStore) -> None:
    await presigning.presign_put(UPLOAD, seconds=60)
    with pytest.raises(NotFound):
        await presigning.open_presigned(UPLOAD, 5)


@pytest.mark.parametrize("size", [0, 4, 6])
async def test_another_size_is_refused(presigning: BlobStore, http: urllib3.PoolManager, size: int) -> None:
    http.request("PUT", await presigning.presign_put(UPLOAD, seconds=60), body=b"hello")
    with pytest.raises(InvalidRequest) as refused:
        await presigning.open_presigned(UPLOAD, size)
    assert (refused.value.context["expected"], refused.value.context["actual"]) == (size, 5)


async def test_what_was_put_again_after_it_was_hashed_is_not_sealed(
    presigning: BlobStore, http: urllib3.PoolManager
) -> None:
    url = await presigning.presign_put(UPLOAD, seconds=60)
    http.request("PUT", url, body=b"hello")
    staging = await presigning.open_presigned(UPLOAD, 5)
    http.request("PUT", url, body=b"HELLO")
    with pytest.raises(Unavailable):
        await staging.seal(TENANT, staging.sha256)
    assert await everything(presigning.blobs()) == []
    await staging.close()


async def test_a_url_is_good_for_its_upload_and_its_time_alone(
    presigning: BlobStore, backend: Backend, http: urllib3.PoolManager
) -> None:
    url = await presigning.presign_put(UPLOAD, seconds=1)
    assert http.request("PUT", url.replace(UPLOAD, UPLOAD[::-1]), body=b"hello").status == 403
    assert http.request("GET", url).status == 403
    expires = time.monotonic() + 20
    while http.request("PUT", url, body=b"hello").status == 200:
        assert time.monotonic() < expires
    assert http.request("PUT", url, body=b"later").status == 403
    await presigning.discard(UPLOAD)
    assert backend.holds() == set()


async def test_a_client_gets_a_blob_as_a_file_of_its_name_and_type(
    presigning: BlobStore, http: urllib3.PoolManager
) -> None:
    blob = await put(presigning, b"hello")
    url = await presigning.presign_get(
        TENANT, blob, seconds=60, file_name='ü "x";\r\nX-Evil: 1.pdf', content_type="application/pdf"
    )
    got = http.request("GET", url)
    assert (got.status, got.data) == (200, b"hello")
    assert got.headers["content-type"] == "application/pdf"
    disposition = "attachment; filename*=UTF-8''%C3%BC%20%22x%22%3B%0D%0AX-Evil%3A%201.pdf"
    assert got.headers["content-disposition"] == disposition
    assert "x-evil" not in got.headers
    assert http.request("GET", url, headers={"Range": "bytes=1-2"}).data == b"el"


async def test_clients_may_know_the_store_by_another_address(
    presigning: BlobStore, backend: Backend, http: urllib3.PoolManager
) -> None:
    url, access_key, secret_key, bucket = backend.arguments
    elsewhere = url.replace("127.0.0.1", "localhost")
    store = ObjectBlobs(url, access_key, secret_key, bucket, public_url=elsewhere)
    blob = await put(store, b"hello")
    put_url = await store.presign_put(UPLOAD, seconds=60)
    get_url = await store.presign_get(TENANT, blob, seconds=60, file_name="a", content_type="text/plain")
    for signed in (put_url, get_url):
        assert signed.startswith(elsewhere)
    assert http.request("PUT", put_url, body=b"hi").status == 200
    assert http.request("GET", get_url).data == b"hello"
    await store.close()


async def test_bytes_that_changed_while_they_were_copied_leave_nothing_behind(
    presigning: BlobStore, http: urllib3.PoolManager, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multipart, "PART_BYTES", 5 * 1024 * 1024)
    data = some_bytes(12 * 1024 * 1024)
    url = await presigning.presign_put(UPLOAD, seconds=60)
    http.request("PUT", url, body=data)
    staging = await presigning.open_presigned(UPLOAD, len(data))
    http.request("PUT", url, body=some_bytes(len(data), 1))
    with pytest.raises(Unavailable):
        await staging.seal(TENANT, staging.sha256)
    assert await everything(presigning.blobs()) == []
    await presigning.discard(UPLOAD)
    assert backend.holds() == set()
