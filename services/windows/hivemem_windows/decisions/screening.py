"""What privacy rules keep out of a window, before anything is stored or announced."""

from typing import Any

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.windows.models import Privacy


def check_privacy(privacy: Privacy | None) -> None:
    """Raise `InvalidRequest` for rules that nothing can apply."""
    if privacy is None:
        return
    if privacy.redact:
        raise InvalidRequest(
            f"resource.privacy.redact: there is no rule {privacy.redact[0]!r}", field="resource.privacy.redact"
        )
    if privacy.do_not_persist is not None and privacy.do_not_persist.patterns:
        field = "resource.privacy.do_not_persist.patterns"
        raise InvalidRequest(f"{field}: patterns are not supported", field=field)


def screened(privacy: Privacy | None, fields: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return a message without its secrets, and whether it may be stored."""
    if privacy is None or privacy.do_not_persist is None:
        return fields, True
    return fields, fields["role"] not in privacy.do_not_persist.roles
