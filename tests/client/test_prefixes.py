"""A prefix that no change can have is refused, and the error says what was meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hivemem
from hivemem.prefixes import feed_filters
from hivemem_contracts.catalog import CHANGES
from hivemem_contracts.changes import ChangeKind
from hivemem_contracts.identifiers import NAMESPACE_ROOTS
from hivemem_contracts.subjects import Address, change_subject

TEXTS = st.text(min_size=1, max_size=8).filter(lambda text: ":" not in text and text.isprintable())


@st.composite
def addresses(draw: st.DrawFn, kind: ChangeKind) -> Address:
    """Generate an address that a change of this kind can have."""
    if kind.address[0] == "namespace":
        parts = [draw(st.sampled_from(NAMESPACE_ROOTS)), *draw(st.lists(TEXTS, min_size=1, max_size=4))]
    else:
        parts = [draw(TEXTS) for _ in kind.address[: len(kind.address) - kind.keyed]]
        if kind.starts:
            parts[0] = draw(st.sampled_from(kind.starts))
    keyed = kind.keyed and not (kind.key_optional and draw(st.booleans()))
    return Address(tuple(parts), draw(TEXTS) if keyed else None)


@given(st.data())
def test_every_beginning_of_an_address_is_followed(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(CHANGES))
    subject = change_subject("acme", kind.entity, data.draw(addresses(kind)))
    tokens = subject.split(".")[3:]
    prefix = ".".join(tokens[: data.draw(st.integers(1, len(tokens)))])

    assert feed_filters("acme", prefix) == (f"hive.chg.acme.{prefix}", f"hive.chg.acme.{prefix}.>")


@pytest.mark.parametrize(
    ("prefix", "problem"),
    [
        ("events", "did you mean 'event'?"),
        ("sessions.s1", "did you mean 'session.s1'?"),
        ("Memories.user.alice", "did you mean 'memory.user.alice'?"),
        ("vectors", "The entities are session, event"),
        ("user:alice", "'user:alice' is a namespace: did you mean 'memory.user.alice'?"),
        ("session:s1", "did you mean 'session.s1' or 'memory.session.s1'?"),
        ("user.alice", "did you mean 'memory.user.alice'?"),
        ("memory.user:alice", "did you mean 'memory.user.alice'?"),
        (hivemem.prefix("memory", "user:alice"), "did you mean 'memory.user.alice'?"),
        ("memory.alice", "a namespace starts with one of temp, session, user, app, project, got 'alice'"),
        ("memory.user.%.x", "a namespace has no empty segments"),
        ("memory.user.%k.seat", "a namespace has at least two segments"),
        ("memory.user.alice.%k.seat.row", "nothing comes after a key"),
        ("memory.user.alice.%k.%", "a key is not empty"),
        ("memory.user.alice.%k.%k", "'%k' stands once"),
        ("event.s1.7", "an address of 'event' has session_id and no more"),
        ("event.s1.%k.7", "an address of 'event' has no key"),
        ("event.%", "session_id is not empty"),
        ("event.", "a token is missing"),
        ("event.>", "a prefix has no wildcards"),
        ("event.a b", "did you mean 'event.a%20b'?"),
        ("artifact.s1.report", "has session_id, and name after %k"),
        ("artifact.%k.report", "has session_id before %k"),
        ("state.alice", "scope is one of user, app, project, got 'alice'"),
        ("hive.chg.other.note", "begin with hive.chg.acme"),
        ("hive.live.acme.note", "begin with hive.chg.acme"),
        ("hive.chg.acme.>.s1", "'>' stands at the end"),
        ("hive.chg.acme.a b", "did you mean 'hive.chg.acme.a%20b'?"),
        ("\ud800" * 1000, "The entities are"),
    ],
)
def test_a_prefix_that_matches_nothing_is_refused(prefix: str, problem: str) -> None:
    with pytest.raises(hivemem.InvalidRequest) as raised:
        feed_filters("acme", prefix)

    assert raised.value.context["field"] == "prefix"
    assert problem in raised.value.detail
    assert len(raised.value.detail) < 1000


@pytest.mark.parametrize("subject", ["hive.chg.acme", "hive.chg.acme.note", "hive.chg.acme.*.s1"])
def test_a_whole_subject_is_followed_as_it_is(subject: str) -> None:
    assert feed_filters("acme", subject) == (subject, f"{subject}.>")
    assert feed_filters("acme", f"{subject}.>") == (f"{subject}.>",)


def test_a_prefix_that_is_longer_than_a_subject_is_refused() -> None:
    with pytest.raises(hivemem.TooLarge):
        feed_filters("acme", "x" * 1_000_000)
