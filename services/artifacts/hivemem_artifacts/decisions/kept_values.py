"""The rules for the large values of a deleted session."""

from dataclasses import replace

from hivemem_artifacts.entities.kept_values import KEPT_VALUES, KeptValues
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of


def keep_values(heads: Heads, session_id: str, values: KeptValues) -> Decision:
    """Keep the values of a deleted session, unless a later session with its id was deleted, too."""
    known = value_of(heads(KEPT_VALUES, session_id))
    if known is not None and known.kept and known.until >= values.until:
        return []
    return [Append(KEPT_VALUES, session_id, values)]


def end_keeping(heads: Heads, session_id: str, until: int) -> Decision:
    """Record that the values are deleted, unless a later session with its id has kept values by now."""
    known = value_of(heads(KEPT_VALUES, session_id))
    if known is None or not known.kept or known.until != until:
        return []
    return [Append(KEPT_VALUES, session_id, replace(known, kept=False))]
