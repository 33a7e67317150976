"""The steps of the pipeline, and what it asks of other services."""
