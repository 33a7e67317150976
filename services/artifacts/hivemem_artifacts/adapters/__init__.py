"""The adapters of the blob store, one package per kind of store. Only `worker.py` chooses among them."""
