"""The ledger on SQLite: one writer thread, group commit, write-ahead log with full synchronisation."""

from hivemem_runtime.ledger.sqlite.ledger import SqliteLedger

__all__ = ["SqliteLedger"]
