"""Where vectors are kept: one room a kind of store. Only `worker.py` chooses among them."""
