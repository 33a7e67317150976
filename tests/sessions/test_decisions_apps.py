"""The declaration of an app reaches every session, in any order of the steps."""

from hivemem_contracts.sessions.requests import PutApp
from hivemem_runtime.ledger.port import value_of
from hivemem_sessions.decisions import put_app
from hivemem_sessions.decisions.apps import complete_indexes, index_session
from hivemem_sessions.entities import APP, App

from .heads import DictHeads


def declare(heads: DictHeads, *keys: str) -> App:
    heads.apply(put_app(heads, PutApp(app_name="app", state_indexes=list(keys))))
    app = value_of(heads(APP, "app"))
    assert app is not None
    return app


def test_a_key_that_stays_keeps_its_slot() -> None:
    heads = DictHeads()
    assert declare(heads, "a", "b") == App({"a": 0, "b": 1}, 1, ["a", "b"])
    heads.apply(complete_indexes(heads, "app", 1))
    assert declare(heads, "b") == App({"b": 1}, 1, [])
    assert declare(heads, "c", "b") == App({"c": 0, "b": 1}, 2, ["c"])
    assert declare(heads, "b", "c") == App({"b": 1, "c": 0}, 2, ["c"])
    assert declare(heads) == App({}, 2, [])
    assert declare(heads, *"abcdefgh").slots == {key: slot for slot, key in enumerate("abcdefgh")}


def test_a_late_backfill_neither_overwrites_nor_completes_a_newer_declaration() -> None:
    heads = DictHeads()
    heads.create()
    first, second = declare(heads, "a"), declare(heads, "a", "b")
    heads.apply(index_session(heads, "s1", second))
    assert index_session(heads, "s1", first) == []
    assert heads.session().indexes == {"declared": 2, "slots": {"a": 0, "b": 1}}
    assert complete_indexes(heads, "app", first.declared) == []
    heads.apply(complete_indexes(heads, "app", second.declared))
    assert complete_indexes(heads, "app", second.declared) == []
    assert index_session(heads, "nobody", second) == []


def test_a_new_session_has_the_newest_declaration() -> None:
    heads = DictHeads()
    heads.create("before")
    app = declare(heads, "a")
    heads.create("after")
    assert heads.session("before").indexes is None
    assert heads.session("after").indexes == {"declared": app.declared, "slots": app.slots}
    assert index_session(heads, "after", app) == []
