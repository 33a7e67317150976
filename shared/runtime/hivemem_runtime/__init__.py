"""What every worker stands on: the ledger, the bus, settings, logs and health."""
