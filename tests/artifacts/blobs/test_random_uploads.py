"""Random uploads end with exactly the bytes that were sent."""

import random
from collections.abc import Awaitable, Callable

import pytest

from hivemem_artifacts.ports import PIECE_BYTES, BlobStore, Staging
from hivemem_contracts.errors import Unavailable

from .backends import Backend
from .content import TENANT, UPLOAD, digest, everything, whole

STEPS = 40
LARGEST_BYTES = 40_000_000


class RandomUpload:
    """Two workers take turns at one upload. `sent` is what the client has sent; the store has a prefix of it."""

    def __init__(self, workers: list[BlobStore], seed: int) -> None:
        self.workers = workers
        self.draw = random.Random(seed)
        self.sent = b""
        self.staging: Staging | None = None
        self.forgotten: list[Staging] = []

    async def run(self) -> bytes:
        actions: list[tuple[int, Callable[[Staging], Awaitable[None]]]] = [
            (12, self.append),
            (2, self.flush),
            (2, self.close),
            (2, self.forget),
            (1, self.seal),
        ]
        weights = [weight for weight, _ in actions]
        for _ in range(STEPS):
            staging = await self.held()
            ((_, action),) = self.draw.choices(actions, weights)
            await action(staging)
        staging = await self.held()
        await staging.seal(TENANT, digest(self.sent))
        for held in (staging, *self.forgotten):
            await held.close()
        return self.sent

    async def held(self) -> Staging:
        if self.staging is None:
            self.staging = await self.draw.choice(self.workers).open_staging(UPLOAD)
            self.sent = self.sent[: self.staging.size]
        self.agree(self.staging)
        return self.staging

    def agree(self, staging: Staging) -> None:
        assert staging.size == len(self.sent)
        assert staging.durable <= staging.size
        assert staging.sha256 == digest(self.sent)

    async def append(self, staging: Staging) -> None:
        size = self.draw.choice([0, 1, 1_000, 65_536, 1_048_576, 3_000_000, PIECE_BYTES])
        if len(self.sent) + size <= LARGEST_BYTES:
            data = self.draw.randbytes(size)
            await staging.append(data)
            self.sent += data

    async def flush(self, staging: Staging) -> None:
        await staging.flush()
        assert staging.durable == len(self.sent)

    async def close(self, staging: Staging) -> None:
        await staging.close()
        self.staging = None
        await self.held_all()

    async def held_all(self) -> None:
        """Check that nothing is missing after an orderly end."""
        before = self.sent
        await self.held()
        assert self.sent == before

    async def forget(self, staging: Staging) -> None:
        """Lose the holder as a kill does: another one takes over the durable bytes, and the old one may write late."""
        durable = staging.durable
        self.forgotten.append(staging)
        self.staging = None
        await self.held()
        assert len(self.sent) >= durable
        await self.late_write(self.draw.choice(self.forgotten))

    async def late_write(self, staging: Staging) -> None:
        try:
            await staging.append(self.draw.randbytes(100_000))
            await staging.flush()
        except Unavailable:
            assert not staging.usable

    async def seal(self, staging: Staging) -> None:
        """Seal the bytes without a commit of the metadata, so that the client may continue."""
        await staging.seal(TENANT, digest(self.sent))
        await self.close(staging)


@pytest.mark.parametrize("seed", range(4))
async def test_a_random_upload_comes_out_right(backend: Backend, store: BlobStore, other: BlobStore, seed: int) -> None:
    sent = await RandomUpload([store, other], seed).run()
    assert await whole(store, digest(sent)) == sent
    await store.discard(UPLOAD)
    blobs = await everything(store.blobs())
    for stored in blobs:
        assert digest(await whole(store, stored.blob)) == stored.blob
    assert len(backend.holds()) == len(blobs)
