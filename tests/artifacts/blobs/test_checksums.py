"""Requests to an object store do not sign a hash of their bytes, so a checksum protects them on the way."""

from collections.abc import Iterator, Sequence

import pytest

from hivemem_artifacts.adapters.objects import bucket
from hivemem_contracts.errors import Unavailable

from .backends import BACKENDS, Backend
from .content import UPLOAD, everything, put


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    yield from BACKENDS["minio"](request)


async def test_bytes_that_were_changed_on_their_way_are_not_kept(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = backend.open()
    await store.check()

    def of_others(body: Sequence[bytes]) -> str:
        del body
        return "AAAAAA=="

    with monkeypatch.context() as changed:
        changed.setattr(bucket, "checksum", of_others)
        with pytest.raises(Unavailable):
            await put(store, b"hello")
        with pytest.raises(Unavailable):
            await store.open_staging(UPLOAD)
    assert await everything(store.blobs()) == []
    await put(store, b"hello")
    await store.close()
