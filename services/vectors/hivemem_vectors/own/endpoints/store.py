"""The commands on users' own vectors: each is one commit, which the index follows."""

from hivemem_contracts.vectors import operations, requests
from hivemem_contracts.vectors.replies import VectorDeleted, VectorStored
from hivemem_runtime.ledger.port import Decide, Outcome, Write
from hivemem_runtime.service import Call, Service
from hivemem_vectors.own.decisions import delete_vector, given_vector, store_vector
from hivemem_vectors.own.endpoints.sync import VectorSync
from hivemem_vectors.own.entities import COLLECTION, PROGRESS, VECTOR, vector_id


class VectorCommands:
    def __init__(self, settling: VectorSync) -> None:
        self._settling = settling

    def bind(self, service: Service) -> None:
        service.command(operations.STORE, plan_store, self.answer_store)
        service.command(operations.DELETE, plan_delete, self.answer_delete)

    async def answer_store(self, call: Call, body: requests.StoreVector, outcome: Outcome) -> VectorStored:
        stamp = outcome.stamp
        assert stamp is not None, "to store is to append"
        await self._follow(outcome)
        return VectorStored.model_construct(
            id=body.id, collection=body.collection, version=stamp.version, duplicate=outcome.duplicate
        )

    async def answer_delete(self, call: Call, body: requests.DeleteVector, outcome: Outcome) -> VectorDeleted:
        await self._follow(outcome)
        return VectorDeleted.model_construct(id=body.id, collection=body.collection, deleted=outcome.stamp is not None)

    async def _follow(self, outcome: Outcome) -> None:
        """Bring a new change to the index. A repeated command has been followed already, or a timer will do so."""
        if outcome.stamp is not None and not outcome.duplicate:
            await self._settling.soon(outcome.stamp.tenant, outcome.stamp.id)


def plan_store(call: Call, body: requests.StoreVector) -> Write:
    embedding, vector = given_vector(body.embedding), vector_id(body.collection, body.id)
    return _write(
        call, vector, body.collection, lambda heads, now: store_vector(heads, vector, embedding, body.metadata, now)
    )


def plan_delete(call: Call, body: requests.DeleteVector) -> Write:
    vector = vector_id(body.collection, body.id)
    return _write(call, vector, body.collection, lambda heads, now: delete_vector(heads, vector, now))


def _write(call: Call, vector: str, collection: str, decide: Decide) -> Write:
    return call.write(VECTOR, vector, decide, ((PROGRESS, vector), (COLLECTION, collection)))
