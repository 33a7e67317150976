"""One write of many or large records is one atomic step."""

import random

from hivemem_contracts.limits import BATCH_ITEMS, STATE_BYTES
from hivemem_runtime.ledger.port import Append, Committed, Decision, Heads, Ledger

from .backends import Backend
from .entities import COUNTER, NOTE, CounterSet, NoteEdited
from .writes import TENANT, Told, value_of, write


async def test_write_of_as_many_items_as_a_request_holds(backend: Backend, ledger: Ledger) -> None:
    ids = [f"c{number}" for number in range(BATCH_ITEMS)]
    text = "x" * 1000
    heard: list[Committed] = []
    ledger.on_commit(heard.extend)

    def decide(heads: Heads, now: int) -> Decision:
        return [Append(COUNTER, id, CounterSet(value_of(heads, id) + 1, text)) for id in ids]

    for turn in range(3):
        reads = [(COUNTER, id) for id in ids]
        outcome = await ledger.commit(write(COUNTER, ids[0], decide, Told(request_id=f"{turn}"), reads))
        assert outcome.head.value == turn + 1
    again = await (await backend.open()).commit(write(COUNTER, ids[0], decide, Told(request_id="0")))

    assert again.duplicate
    assert [(each.stamp.id, each.stamp.version) for each in heard] == [(id, turn) for turn in (1, 2, 3) for id in ids]
    heads = await ledger.heads(COUNTER, TENANT, ids)
    assert {head.value and head.value.value for head in heads.values()} == {3}


async def test_write_of_more_bytes_than_a_store_takes_in_one_message(ledger: Ledger) -> None:
    """The records compress to half at best: as records and as heads they exceed 16 MiB together."""
    random_ = random.Random(7)
    large = {f"n{number}": random_.randbytes(STATE_BYTES // 4).hex() for number in range(80)}

    def decide(heads: Heads, now: int) -> Decision:
        return [Append(NOTE, id, NoteEdited(body=body, add=1)) for id, body in large.items()]

    await ledger.commit(write(NOTE, "n0", decide))
    await ledger.commit(write(NOTE, "n0", decide))

    for id in ("n0", "n41", "n79"):
        head = await ledger.head(NOTE, TENANT, id)
        assert head
        assert head.value
        assert (head.version, head.value.total, head.value.body == large[id]) == (2, 2, True)
