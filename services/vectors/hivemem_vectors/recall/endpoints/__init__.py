"""The recall operation and its steps."""
