"""The ledger on MongoDB: one committer a process, group commit, a transaction a batch."""

from hivemem_runtime.ledger.mongo.ledger import MongoLedger

__all__ = ["MongoLedger"]
