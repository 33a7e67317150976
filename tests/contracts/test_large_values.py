"""References to large values: their shape, and the file that each has to name."""

from typing import Any

import pytest

from hivemem_contracts.artifacts.names import check_name
from hivemem_contracts.artifacts.urls import parse_url
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.large_values import LARGE, reference_in, reference_to, require_own, value_name
from hivemem_contracts.limits import LARGE_VALUE_BYTES

DIGEST = "ab" * 32
OWN = reference_to("acme", "s 1/ü", DIGEST, 300_000)


def changed(**fields: Any) -> dict[str, Any]:
    return {LARGE: {name: value for name, value in {**OWN[LARGE], **fields}.items() if value is not None}}


def test_a_reference_names_a_file_of_its_session() -> None:
    url = parse_url(OWN[LARGE]["url"])
    assert (url.tenant, url.session_id, url.name, url.version) == ("acme", "s 1/ü", value_name(DIGEST), None)
    assert check_name(url.name) == url.name
    require_own("acme", "s 1/ü", OWN, "event.content")
    found = reference_in(OWN)
    assert found is not None
    assert (found.sha256, found.size) == (DIGEST, 300_000)


@pytest.mark.parametrize(
    ("reference", "field"),
    [
        ({LARGE: 5}, "$large"),
        ({LARGE: None}, "$large"),
        (changed(sha256=None), "$large.sha256"),
        (changed(sha256="AB" * 32), "$large.sha256"),
        (changed(size=0), "$large.size"),
        (changed(size="300000"), "$large.size"),
        (changed(size=LARGE_VALUE_BYTES + 1), "$large.size"),
        (changed(more=1), "$large.more"),
        (changed(url=5), "$large.url"),
        (changed(url="https://example.com/x"), "$large.url"),
        (changed(sha256="cd" * 32), "$large.url"),
        (reference_to("other", "s 1/ü", DIGEST, 300_000), "$large.url"),
        (reference_to("acme", "s2", DIGEST, 300_000), "$large.url"),
    ],
)
def test_a_wrong_reference_is_refused_with_the_path_of_its_part(reference: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        require_own("acme", "s 1/ü", reference, "event.content")
    assert refused.value.context["field"] == f"event.content.{field}"
    assert refused.value.detail.startswith(f"event.content.{field}: ")


@pytest.mark.parametrize("value", [None, 5, [LARGE], {}, {LARGE: OWN[LARGE], "more": 1}, {"nested": OWN}])
def test_any_other_value_is_none(value: object) -> None:
    require_own("acme", "s1", value, "value")
    assert reference_in(value) is None
