"""Redaction: personal data and secrets are replaced before a value is stored or announced."""

from hivemem_runtime.redaction.redactor import Redactor
from hivemem_runtime.redaction.rules import RULE_NAMES

__all__ = ["RULE_NAMES", "Redactor"]
