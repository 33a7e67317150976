"""Summaries: the part that they replace, the rule, and the model behind an endpoint over a real socket."""

import json
import random
from typing import Any

import pytest

from hivemem_runtime.circuit_breaker import FAILURES
from hivemem_runtime.summaries import Summarizer, middle, rule_summary
from hivemem_runtime.summaries.openai import OpenAISummaryModel
from hivemem_runtime.tokens import Message, token_counter

from ..vectors.embedders.endpoint import Answer, Endpoint, Hang

COUNT = token_counter("openai:o200k").count_text
TALK: list[Message] = [
    {"role": "user", "name": "ann", "content": "Hi there. How are you?"},
    {
        "role": "user",
        "name": "ann",
        "content": "We agreed with Acme on 14,500 EUR. It was so nice to talk to them all again.",
    },
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "invoice", "arguments": '{"to": "Acme"}'}}
        ],
    },
    {"role": "user", "name": "bob", "content": [{"type": "text", "text": "We must wait until Friday."}]},
    {"role": "tool", "tool_call_id": "c1", "content": "invoice 4711 created"},
    {"role": "user", "content": "ok"},
]


@pytest.mark.parametrize(
    ("keep_first", "keep_last", "left"),
    [
        (1, 1, range(1, 5)),
        (0, 0, range(6)),
        (3, 0, range(5, 6)),  # the result of a kept call is kept
        (1, 2, range(1, 2)),  # and the call of a kept result
        (3, 2, range(5, 5)),
        (9, 9, range(9, 9)),
    ],
)
def test_a_summary_parts_no_tool_call_from_its_result(keep_first: int, keep_last: int, left: range) -> None:
    assert middle(TALK, keep_first, keep_last) == left


def test_the_middle_of_any_conversation_parts_no_pair() -> None:
    chosen = random.Random(3)
    for _ in range(300):
        messages: list[Message] = []
        open_calls: list[str] = []
        for number in range(chosen.randrange(30)):
            if open_calls and chosen.random() < 0.4:
                result_of = open_calls.pop(chosen.randrange(len(open_calls)))
                messages.append({"role": "tool", "tool_call_id": result_of, "content": "x"})
            else:
                open_calls += (calls := [f"{number}-{each}" for each in range(chosen.randrange(3))])
                messages.append({"role": "assistant", "tool_calls": [{"id": call} for call in calls]})
        condensed = middle(messages, chosen.randrange(9), chosen.randrange(9))
        inside = [messages[place] for place in condensed]
        made = {call["id"] for message in messages for call in message.get("tool_calls", ())} - set(open_calls)
        called = {call["id"] for message in inside for call in message.get("tool_calls", ())} & made
        assert called == {message["tool_call_id"] for message in inside if "tool_call_id" in message}


def test_the_rule_keeps_speakers_names_numbers_and_decisions() -> None:
    assert rule_summary(TALK, 54, COUNT) == (
        "Summary of 6 earlier messages:\n"
        "ann: We agreed with Acme on 14,500 EUR.\n"
        'assistant: calls invoice({"to": "Acme"})\n'
        "bob: We must wait until Friday.\n"
        "tool: invoice 4711 created"
    )


def test_an_earlier_summary_is_condensed_with_the_messages_after_it() -> None:
    earlier = {"role": "summary", "content": rule_summary(TALK, 54, COUNT)}
    summary = rule_summary([earlier, {"role": "user", "name": "cy", "content": "The budget is 9 EUR."}], 90, COUNT)
    assert summary.startswith("Summary of 7 earlier messages:\nann: We agreed with Acme on 14,500 EUR.\n")
    assert summary.endswith("\ncy: The budget is 9 EUR.")


@pytest.mark.parametrize("max_tokens", [1, 2, 5, 12, 30, 60, 500])
def test_the_rule_holds_its_budget(max_tokens: int) -> None:
    chosen = random.Random(max_tokens)
    words = ["Acme", "decided", "4711", "nothing", "会议", "…", "x" * 900, "a.", "b!\n", "c?\t"]
    for _ in range(50):
        contents = [" ".join(chosen.choices(words, k=chosen.randrange(40))) for _ in range(10)]
        messages = [{"role": "user", "content": content} for content in contents]
        summary = rule_summary(messages, max_tokens, COUNT)
        assert COUNT(summary) <= max_tokens
        assert summary == rule_summary(messages, max_tokens, COUNT)
    assert rule_summary([], max_tokens, COUNT) == ""


def answer(text: str | None) -> Answer:
    return Answer(body=json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode())


async def no_pause(_: float) -> None:
    pass


def summarizer_of(endpoint: Endpoint, **options: Any) -> Summarizer:
    return Summarizer(OpenAISummaryModel(endpoint.url, "some-model", pause=no_pause), **options)


async def test_a_model_reads_the_transcript_and_its_summary_holds_the_budget() -> None:
    async with Endpoint(answer(" Acme pays 14,500 EUR. "), answer("word " * 300)) as endpoint:
        summarizer = summarizer_of(endpoint)
        summary = await summarizer.summarize(TALK, 50, COUNT)
        cut = await summarizer.summarize(TALK, 50, COUNT)
        await summarizer.close()

    assert (summary.text, summary.by, summary.fallback) == ("Acme pays 14,500 EUR.", "model", None)
    assert summary.tokens == COUNT(summary.text)
    assert (cut.by, cut.tokens) == ("model", 50)
    assert endpoint.requests[0].path == "/v1/chat/completions"
    assert endpoint.requests[0].body["model"] == "some-model"
    assert endpoint.requests[0].body["messages"][1]["content"].splitlines()[3] == "bob: We must wait until Friday."


async def test_a_long_transcript_is_condensed_before_a_model_reads_it() -> None:
    async with Endpoint(answer("short")) as endpoint:
        summarizer = summarizer_of(endpoint, input_tokens=100)
        await summarizer.summarize([*TALK, *({"role": "user", "content": f"Row {n}."} for n in range(200))], 50, COUNT)
        await summarizer.close()
    assert COUNT(endpoint.requests[0].body["messages"][1]["content"]) <= 100


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (Answer(status=400, body=b"too odd"), "too odd"),
        (Answer(status=401, body=b"no key"), "no key"),
        (answer(None), "no text"),
        (answer(" "), "empty"),
        (Answer(body=b'{"choices": []}'), "no choice"),
        (Hang(), "within 0.2 s"),
    ],
)
async def test_the_rule_takes_over_from_a_model_that_fails(told: Answer | Hang, said: str) -> None:
    async with Endpoint(told, told, told) as endpoint:
        summarizer = summarizer_of(endpoint, timeout_seconds=0.2 if isinstance(told, Hang) else 60)
        summary = await summarizer.summarize(TALK, 50, COUNT)
        await summarizer.close()
    assert (summary.text, summary.by) == (rule_summary(TALK, 50, COUNT), "rule")
    assert said in (summary.fallback or "")


async def test_a_model_that_stays_down_is_left_alone() -> None:
    refusals = [Answer(status=401)] * FAILURES
    async with Endpoint(*refusals, answer("unasked")) as endpoint:
        summarizer = summarizer_of(endpoint)
        by = {(await summarizer.summarize(TALK, 50, COUNT)).by for _ in range(FAILURES + 1)}
        await summarizer.close()
    assert (by, len(endpoint.requests), summarizer.breaker.state) == ({"rule"}, FAILURES, "open")


async def test_without_a_model_the_rule_answers_and_says_why() -> None:
    asked = await Summarizer().summarize(TALK, 50, COUNT)
    assert (asked.by, asked.fallback) == ("rule", "this fleet has no model for summaries")
    assert (await Summarizer().summarize(TALK, 50, COUNT, by="rule")).fallback is None
