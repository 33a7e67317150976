"""The decisions alone: no order of the steps of savers and collectors loses the bytes of a file."""

import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field

import pytest

from hivemem_artifacts.decisions.deletions import begin_deletion, end_deletion, release_versions
from hivemem_artifacts.decisions.garbage_collection import begin_collection, collectable, end_collection, fence_off
from hivemem_artifacts.decisions.saves import BytesGone, look_up, save_version
from hivemem_artifacts.decisions.uploads import (
    Committed,
    abort_upload,
    begin_upload,
    commit_upload,
    expire_upload,
    hold_upload,
)
from hivemem_artifacts.entities.artifacts import ARTIFACT, ArtifactRecord
from hivemem_artifacts.entities.blobs import BLOB, Blob, blob_name, sha256_and_life
from hivemem_artifacts.entities.deletions import DELETION
from hivemem_artifacts.entities.places import place_of, session_and_name, within
from hivemem_artifacts.entities.uploads import UPLOAD, Upload
from hivemem_contracts.errors import NotFound, Unavailable
from hivemem_runtime.ledger.port import Record
from hivemem_testing.heads import DictHeads

SHA = "ab" * 32
PLACES = tuple(place_of("s1", name) for name in ("a", "b", "c"))
ALWAYS = 2**60

Step = Generator[None]
"""A concurrent actor: at each `yield` any other actor may run."""


@dataclass
class World:
    """The whole state: heads, and the names of the blobs in the store."""

    heads: DictHeads = field(default_factory=DictHeads)
    store: set[str] = field(default_factory=set[str])

    def blob(self) -> Blob | None:
        head = self.heads(BLOB, SHA)
        return None if head is None else head.value

    def check(self) -> None:
        blob = self.blob()
        if blob is not None and blob.usable:
            assert blob_name(SHA, blob.life) in self.store, "what is said to be there is there"
        uses = 0
        for place in PLACES:
            for _, record in self.living(place):
                uses += 1
                assert record.blob in self.store, "each version has its bytes"
        assert uses == (blob.refs if blob is not None and blob.usable else 0), "each use is counted"

    def living(self, place: str) -> list[tuple[int, ArtifactRecord]]:
        head = self.heads(ARTIFACT, place)
        if head is None or head.value is None:
            return []
        deletion = self.heads(DELETION, place)
        released = 0
        if deletion is not None and deletion.value is not None and deletion.value.running:
            released = deletion.value.released
        first = max(head.value.first_version, released + 1)
        records = self.heads.records["artifact", place]
        return [(stamp.version, record) for stamp, record in records if stamp.version >= first]


def saver(world: World, chance: random.Random) -> Step:
    place = chance.choice(PLACES)
    while True:
        found = look_up(world.heads(BLOB, SHA), SHA, 3)
        yield
        if not found.there:
            world.store.add(found.blob)
            yield
        try:
            world.heads.apply(save_version(world.heads, place, found, "text/plain", {}, 0))
        except BytesGone:
            yield
        except Unavailable:  # its deletion is under way
            return
        else:
            return


def deleter(world: World, chance: random.Random) -> Step:
    place = chance.choice(PLACES)
    try:
        world.heads.apply(begin_deletion(world.heads, place, "bot", "m1", 1))
    except (NotFound, Unavailable):
        return
    head = world.heads(DELETION, place)
    assert head is not None
    assert head.value is not None
    through = head.value.through
    yield
    records = world.heads.records["artifact", place]
    for stamp, record in records:
        deletion = world.heads(DELETION, place)
        assert deletion is not None
        assert deletion.value is not None
        if stamp.version == deletion.value.released + 1:
            released = release_versions(world.heads, place, through, [Record(stamp, record)], 1)
            world.heads.apply(released)
            yield
    world.heads.erase(ARTIFACT, place)
    records.clear()
    world.heads.apply(end_deletion(world.heads, place, through))


def collector(world: World, chance: random.Random) -> Step:
    del chance
    blob = world.blob()
    if blob is None or not collectable(blob, ALWAYS):
        return
    if blob.state == "present":
        begun = begin_collection(world.heads, SHA, ALWAYS)
        world.heads.apply(begun)
        if not begun:
            return
        yield
    world.store.discard(blob_name(SHA, blob.life))
    yield
    world.heads.apply(end_collection(world.heads, SHA, blob.life))


def sweeper(world: World, chance: random.Random) -> Step:
    """Collect blobs that are in the store but not in the ledger."""
    if not world.store:
        return
    name = chance.choice(sorted(world.store))
    life = sha256_and_life(name)[1]
    yield
    if _known(world.blob(), life):
        return
    yield
    world.heads.apply(fence_off(world.heads, SHA, life, 3))
    yield
    if not _known(world.blob(), life):
        yield
        world.store.discard(name)


def _known(blob: Blob | None, life: int) -> bool:
    return blob is not None and blob.state != "absent" and blob.life == life


ACTORS: tuple[Callable[[World, random.Random], Step], ...] = (saver, saver, deleter, collector, sweeper)


@pytest.mark.parametrize("seed", range(300))
def test_no_order_of_steps_loses_bytes(seed: int) -> None:
    chance = random.Random(seed)
    world, working = World(), list[Iterator[None]]()
    for _ in range(150):
        if len(working) < 5:
            working.append(chance.choice(ACTORS)(world, chance))
        actor = chance.choice(working)
        try:
            next(actor)
        except StopIteration:
            working.remove(actor)
        world.check()
    for actor in working:
        for _ in actor:
            world.check()
    for _ in range(3):
        for cleaner in (*[collector] * 3, *[sweeper] * 8):
            for _ in cleaner(world, chance):
                world.check()
    blob = world.blob()
    left = {blob_name(SHA, blob.life)} if blob is not None and blob.refs else set[str]()
    assert left <= world.store


def upload_of(expires_at: int = 100) -> Upload:
    return Upload("s1", "a", 0, expires_at, 4, "m1", sha256=SHA, metadata={"n": 1})


def test_an_upload_becomes_a_version_and_ends_in_one_step() -> None:
    heads = DictHeads()
    heads.apply(begin_upload(heads, "u1", upload_of()))
    heads.apply(hold_upload(heads, "u1", "m2", 200, 50))
    found = look_up(None, SHA, 3)
    heads.apply(commit_upload(heads, "u1", found, "text/plain", 150, kept_until=900))
    artifact, upload = heads(ARTIFACT, place_of("s1", "a")), heads(UPLOAD, "u1")
    assert artifact is not None
    assert artifact.value is not None
    assert (artifact.version, artifact.value.metadata) == (1, {"n": 1})
    assert upload is not None
    assert upload.value is not None
    assert (upload.value.state, upload.value.version, upload.value.expires_at) == ("committed", 1, 900)
    with pytest.raises(Committed):
        commit_upload(heads, "u1", found, "text/plain", 150, kept_until=900)
    assert abort_upload(heads, "u1", 150, kept_until=900) == []


def test_an_upload_past_its_time_takes_nothing_more() -> None:
    heads = DictHeads()
    heads.apply(begin_upload(heads, "u1", upload_of()))
    assert expire_upload(heads, "u1", 99, kept_until=99) == []
    with pytest.raises(NotFound):
        hold_upload(heads, "u1", "m2", 200, 100)
    with pytest.raises(NotFound):
        commit_upload(heads, "u1", look_up(None, SHA, 3), "text/plain", 100, kept_until=900)
    heads.apply(expire_upload(heads, "u1", 100, kept_until=100))
    with pytest.raises(NotFound):
        hold_upload(heads, "u1", "m2", 200, 50)
    with pytest.raises(NotFound):
        abort_upload(heads, "u2", 1, kept_until=1)


def test_a_place_keeps_the_names_of_a_session_together() -> None:
    places = sorted(place_of(session, name) for session in ("s", "s1", "s 1") for name in ("a", "a/b", "z"))
    for session in ("s", "s1", "s 1"):
        low, high = within(session)
        assert [session_and_name(place) for place in places if low <= place < high] == [
            (session, name) for name in ("a", "a/b", "z")
        ]
    low, high = within("s", "a/")
    assert [place for place in places if low <= place < high] == [place_of("s", "a/b")]
