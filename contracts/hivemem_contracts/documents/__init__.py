"""The documents generated from the contracts: JSON Schemas, an AsyncAPI document, the tables of the wire page."""
