"""The subject grammar: any text makes one token, no two addresses share a subject, a prefix covers whole segments."""

from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hivemem_contracts.errors import InvalidRequest, TooLarge
from hivemem_contracts.limits import SUBJECT_BYTES
from hivemem_contracts.subjects import (
    KEY_MARKER,
    Address,
    Sender,
    change_filters,
    change_prefix,
    change_subject,
    command_subject,
    dead_subject,
    decode_token,
    encode_token,
    namespace_tokens,
    parse_change_subject,
    request_subject,
    sender_of,
)

AWKWARD = (
    "",
    "%",
    "%k",
    "%25k",
    ".",
    "..",
    "*",
    ">",
    " ",
    " a ",
    "a.b",
    "a b",
    "a:b",
    "\t",
    "\n",
    "\0",
    "é",
    "日本",
    "🐝",
)
text = st.one_of(st.sampled_from(AWKWARD), st.text(max_size=40))
name = st.one_of(st.sampled_from([awkward for awkward in AWKWARD if awkward]), st.text(min_size=1, max_size=20))
parts = st.lists(text, min_size=1, max_size=4).map(tuple)
addresses = st.builds(Address, parts, st.none() | text)
few = st.sampled_from(["", "a", "ab", "a.b", "%k", "*"])
close_addresses = st.builds(Address, st.lists(few, min_size=1, max_size=3).map(tuple), st.none() | few)


@dataclass(frozen=True)
class Filter:
    """The pattern of a subscription; `matches` follows the rules of NATS."""

    pattern: str

    def matches(self, subject: str) -> bool:
        wanted, tokens = self.pattern.split("."), subject.split(".")
        for place, token in enumerate(wanted):
            if token == ">":
                return place == len(wanted) - 1 and len(tokens) > place
            if place >= len(tokens) or token not in ("*", tokens[place]):
                return False
        return len(wanted) == len(tokens)


def covered(filters: tuple[str, ...], subject: str) -> list[str]:
    return [pattern for pattern in filters if Filter(pattern).matches(subject)]


@given(text)
def test_any_text_makes_one_token_and_comes_back(value: str) -> None:
    token = encode_token(value)
    assert token
    assert token.isascii()
    assert not set(token) & set(".*> \t\r\n")
    assert token != KEY_MARKER
    assert decode_token(token) == value


@given(text, text)
def test_different_texts_have_different_tokens(one: str, other: str) -> None:
    assert (encode_token(one) == encode_token(other)) == (one == other)


@given(st.text(alphabet="%25kK4aA1.*> cCéEf0", max_size=8))
def test_a_token_has_one_spelling(token: str) -> None:
    try:
        value = decode_token(token)
    except InvalidRequest:
        return
    assert encode_token(value) == token


@pytest.mark.parametrize(
    "token",
    ["", "%k", "%41", "%c3%a9", "%C3", "%2", "a.b", "a b", "é", "*", ">", "%%", "%ED%A0%80"],
)
def test_what_is_no_escaped_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidRequest):
        decode_token(token)


@pytest.mark.parametrize("value", ["\ud800", "a\udfff", "\ud83d \udc1d"])
def test_half_of_a_surrogate_pair_is_refused(value: str) -> None:
    with pytest.raises(InvalidRequest):
        encode_token(value)
    with pytest.raises(InvalidRequest):
        change_subject("t", "memory", Address(("user", "alice"), value))


@given(name, addresses)
@example("t", Address(("user", "alice", "preferences"), "a.b c"))
@example("t", Address(("%k",), "%k"))
@example("t", Address(("", ""), ""))
def test_a_change_subject_says_where_the_change_is(tenant: str, address: Address) -> None:
    assert parse_change_subject(change_subject(tenant, "memory", address)) == (tenant, "memory", address)


def test_the_documented_address_is_spelled_as_documented() -> None:
    assert (
        change_subject("acme", "memory", Address(("user", "alice", "preferences"), "a.b c"))
        == "hive.chg.acme.memory.user.alice.preferences.%k.a%2Eb%20c"
    )


@given(close_addresses, close_addresses)
def test_different_addresses_have_different_subjects(one: Address, other: Address) -> None:
    assert (change_subject("t", "memory", one) == change_subject("t", "memory", other)) == (one == other)


@given(name, name, addresses)
def test_tenants_never_share_a_subject(one: str, other: str, address: Address) -> None:
    assert (change_subject(one, "memory", address) == change_subject(other, "memory", address)) == (one == other)


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "hive.chg.t.session",
        "hive.req.t.session.s",
        "hive.chg.t.memory.%k.x",
        "hive.chg.t.memory.a.%k",
        "hive.chg.t.memory.a.%k.b.c",
        "hive.chg.t.memory.a.%k.b.%k.c",
        "hive.chg..memory.a",
        "hive.chg.t.memory.a..b",
        "hive.chg.t.memory.>",
    ],
)
def test_what_is_no_change_subject_is_refused(subject: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_change_subject(subject)


@given(name, close_addresses, close_addresses)
def test_a_prefix_covers_its_address_and_what_is_below(tenant: str, prefix: Address, address: Address) -> None:
    filters = change_filters(tenant, change_prefix("memory", *prefix.parts, key=prefix.key))
    start = prefix.tokens.split(".")
    below = address.tokens.split(".")[: len(start)] == start
    assert len(covered(filters, change_subject(tenant, "memory", address))) == (1 if below else 0)


@given(name, name, close_addresses)
def test_all_changes_of_a_tenant_are_those_of_no_other(tenant: str, other: str, address: Address) -> None:
    assert bool(covered(change_filters(tenant), change_subject(other, "memory", address))) == (tenant == other)


def test_a_prefix_matches_whole_segments_only() -> None:
    filters = change_filters("t", change_prefix("memory", "user", "alice"))
    assert covered(filters, change_subject("t", "memory", Address(("user", "alice"), "k")))
    assert covered(filters, change_subject("t", "memory", Address(("user", "alice", "preferences"), "k")))
    assert not covered(filters, change_subject("t", "memory", Address(("user", "alicex"), "k")))


def test_the_marker_alone_is_the_prefix_of_one_exact_namespace() -> None:
    filters = change_filters("t", change_prefix("memory", "user", "alice") + f".{KEY_MARKER}")
    assert covered(filters, change_subject("t", "memory", Address(("user", "alice"), "k")))
    assert not covered(filters, change_subject("t", "memory", Address(("user", "alice", "x"), "k")))
    assert not covered(filters, change_subject("t", "memory", Address(("user", "alice", "%k"), "k")))


@pytest.mark.parametrize("prefix", [">", "memory.>", "memory.*", "memory..a", "memory.a b", "memory.", "memory.%41"])
def test_a_prefix_can_not_bring_a_wildcard(prefix: str) -> None:
    with pytest.raises(InvalidRequest):
        change_filters("t", prefix)


@given(name, name)
def test_the_sender_comes_back_from_a_request_subject(tenant: str, agent: str) -> None:
    tokens = request_subject(tenant, agent, "sessions", "append").split(".")
    assert tokens[:2] == ["hive", "req"]
    assert tokens[4:] == ["sessions", "append"]
    assert sender_of(tokens[2], tokens[3]) == Sender(tenant, agent)


@pytest.mark.parametrize(("tenant", "agent"), [("%", "a"), ("t", "%")])
def test_nobody_acts_without_a_name(tenant: str, agent: str) -> None:
    with pytest.raises(InvalidRequest):
        sender_of(tenant, agent)


@pytest.mark.parametrize(("tenant", "agent"), [("t" * 952, "a"), ("t", "_" * 318), ("t" * 3_000, "a" * 400)])
def test_names_are_so_short_that_a_worker_can_ask_and_be_answered_in_them(tenant: str, agent: str) -> None:
    """The server closes a connection that sends a longer line."""
    with pytest.raises(TooLarge):
        sender_of(tenant, agent)
    assert sender_of(tenant[:900], agent[:10]) == Sender(tenant[:900], agent[:10])


@given(name, name, text)
def test_a_command_has_seven_tokens_and_its_route_comes_back(tenant: str, agent: str, route: str) -> None:
    tokens = command_subject(tenant, agent, "sessions", "append", route).split(".")
    assert len(tokens) == 7
    assert decode_token(tokens[6]) == route
    assert dead_subject(tenant, agent, "sessions", "append").split(".")[2:] == tokens[2:6]


@given(st.lists(text, min_size=2, max_size=5))
def test_a_namespace_is_a_token_for_each_segment(segments: list[str]) -> None:
    split = ":".join(segments).split(":")
    assert [decode_token(token) for token in namespace_tokens(":".join(segments))] == split


def test_a_subject_of_the_limit_passes_and_one_byte_more_is_refused() -> None:
    room = SUBJECT_BYTES - len(request_subject("t", "", "sessions", "append")) + 1
    assert len(request_subject("t", "a" * room, "sessions", "append")) == SUBJECT_BYTES
    with pytest.raises(TooLarge) as refused:
        request_subject("t", "a" * (room + 1), "sessions", "append")
    assert refused.value.context == {"field": "subject", "limit": SUBJECT_BYTES, "actual": SUBJECT_BYTES + 1}


@given(st.integers(min_value=SUBJECT_BYTES // 12, max_value=SUBJECT_BYTES // 6))
def test_the_limit_counts_escaped_bytes(characters: int) -> None:
    key = "🐝" * characters
    with pytest.raises(TooLarge):
        change_subject("t", "memory", Address(("user", "alice"), key))
    with pytest.raises(TooLarge):
        change_filters("t", f"memory.{encode_token(key)}")


def test_text_that_can_fit_no_subject_is_refused_before_it_is_encoded() -> None:
    before = encode_token.cache_info().currsize
    with pytest.raises(TooLarge):
        encode_token("é" * (SUBJECT_BYTES + 1))
    assert encode_token.cache_info().currsize == before
