"""The reply subjects that a worker accepts, and the encoding of errors."""

import orjson
import pytest

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_contracts.subjects import Sender, inbox_prefix
from hivemem_runtime.bus.requests.replies import ERROR_BYTES, Unanswered, error_body, error_headers, inbox_of
from hivemem_runtime.policy import Policy

BOT = Sender("acme", "bot")
ANY, OWN = Policy(), Policy(own_inboxes=True)


@pytest.mark.parametrize("reply", ["_INBOX.x", "_INBOX.abc.DEF.1", "_INBOX_acme_bot.x", "_INBOX_acme_bot.x.y.z"])
def test_an_answer_goes_to_a_plain_inbox_or_to_the_callers_own(reply: str) -> None:
    assert ANY.reply_allowed(BOT, reply)
    assert OWN.reply_allowed(BOT, reply) == reply.startswith("_INBOX_")


@pytest.mark.parametrize("policy", [ANY, OWN])
def test_an_answer_goes_back_to_another_account(policy: Policy) -> None:
    assert policy.reply_allowed(BOT, "_R_.kWXRdj.rRo2Hd")
    assert inbox_of("_R_.kWXRdj.rRo2Hd") is not None


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "_R_",
        "_R_x.y",
        "_INBOX",
        "_INBOX.",
        "_INBOX_",
        "_INBOX_.x",
        "_INBOXES.x",
        "_INBOX_acme_bot",
        "_INBOX_acme_bot.",
        "_INBOX_acme_other.x",
        "_INBOX_acme_bot2.x",
        "_INBOX_acme.x",
        "_INBOX_other_bot.x",
        "_inbox.x",
        "hive.chg.acme.memory.a",
        "hive.in.acme.other.memory.put.a",
        "$JS.API.STREAM.PURGE.CHANGES",
        "$SYS.REQ.SERVER.PING",
        "_INBOX.*",
        "_INBOX.>",
        "_INBOX.a.*.b",
        "_INBOX..x",
        "_INBOX.a..b",
        "_INBOX.a b",
        "_INBOX.a\tb",
        "_INBOX.a\r\nPUB x 0",
        "_INBOX.a\x00",
        "_INBOX_acme_bot.>",
        f"_INBOX.{'x' * 2_000}",
    ],
)
def test_an_answer_goes_nowhere_else(reply: str) -> None:
    assert not ANY.reply_allowed(BOT, reply)


def test_the_border_between_tenant_and_agent_is_not_ambiguous() -> None:
    first, second = Sender("a_b", "c"), Sender("a", "b_c")
    assert inbox_prefix("a_b", "c") == "_INBOX_a%5Fb_c"
    assert OWN.reply_allowed(first, "_INBOX_a%5Fb_c.x")
    assert not ANY.reply_allowed(second, "_INBOX_a%5Fb_c.x")
    assert not ANY.reply_allowed(first, "_INBOX_a_b_c.x")
    assert inbox_prefix("x.y", "\u00e9") == "_INBOX_x%2Ey_%C3%A9"


def test_who_does_not_say_who_it_is_has_no_inbox_of_its_own() -> None:
    assert ANY.reply_allowed(None, "_INBOX.x")
    assert not ANY.reply_allowed(None, "_INBOX_acme_bot.x")
    assert not OWN.reply_allowed(None, "_INBOX.x")


def test_discovery_answers_any_inbox() -> None:
    assert inbox_of("_INBOX.x") == "_INBOX"
    assert inbox_of("_INBOX_acme_bot.x") == "_INBOX_acme_bot"
    assert inbox_of("hive.in.acme.bot.memory.put.a") is None


@pytest.mark.parametrize(
    "text", ["a\r\nb", "a\x00b", "a\nNats-Service-Error-Code: 0", "\x1b[2J", "a\u2028b", "\ud800x"]
)
def test_the_text_of_an_error_cannot_leave_its_header(text: str) -> None:
    header = error_headers(InvalidRequest(text))["Nats-Service-Error"]
    assert header.isprintable()
    assert header.encode()
    assert orjson.loads(error_body(InvalidRequest(text, field=text)))["error"]["code"] == 40001


def test_an_error_is_never_too_large_to_send() -> None:
    error = Unavailable("x" * 2_000_000, field="y" * 2_000_000, retry_after_ms=7, found=["z"] * 500_000)
    assert len(error_headers(error)["Nats-Service-Error"]) < 600
    body = error_body(error)
    assert len(body) < ERROR_BYTES
    assert orjson.loads(body)["error"]["context"]["retry_after_ms"] == 7
    assert orjson.loads(body)["error"]["retryable"] is True


def test_the_log_tells_of_refused_replies_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    unanswered = Unanswered()
    for _ in range(1_000):
        unanswered.add("hive.req.acme.bot.things.echo", "hive.chg.x")
    assert unanswered.count == 1_000
    assert "".join(capsys.readouterr()).count("no answer goes there") == 1
