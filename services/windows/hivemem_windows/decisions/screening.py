"""What privacy rules keep out of a window, before anything is stored or announced."""

from typing import Any, Final

from hivemem_contracts.windows.models import Privacy, RedactionRule
from hivemem_runtime.redaction import Redactor

FIELD: Final = "resource.privacy"
SEARCHED: Final[tuple[str, ...]] = ("content", "name", "tool_calls", "metadata")


class Screen:
    """Applies the privacy rules of a resource."""

    def __init__(self, privacy: Privacy | None) -> None:
        """Raises `InvalidRequest` for an unknown rule, and for a pattern that is invalid or too large."""
        redact = [] if privacy is None else privacy.redact
        drop = None if privacy is None else privacy.do_not_persist
        self._roles = frozenset([] if drop is None else drop.roles)
        rules = [rule.model_dump() if isinstance(rule, RedactionRule) else rule for rule in redact]
        self._redactor = Redactor(rules, field=f"{FIELD}.redact") if rules else None
        patterns = [] if drop is None else drop.patterns
        dropped = [{"name": f"pattern-{place}", "pattern": pattern} for place, pattern in enumerate(patterns)]
        self._dropping = Redactor(dropped, field=f"{FIELD}.do_not_persist.patterns") if dropped else None

    def apply(self, fields: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Return a message without what is redacted, and whether it may be stored. The ids of tool calls stay."""
        searched = {name: fields[name] for name in SEARCHED if name in fields}
        persist = fields["role"] not in self._roles
        if persist and self._dropping is not None:
            persist = not self._dropping.redact(searched)[1]
        if self._redactor is None:
            return fields, persist
        redacted = {name: self._redactor.redact(value)[0] for name, value in searched.items()}
        for call, before in zip(redacted.get("tool_calls") or (), searched.get("tool_calls") or (), strict=True):
            if "id" in before:
                call["id"] = before["id"]
        return {**fields, **redacted}, persist
