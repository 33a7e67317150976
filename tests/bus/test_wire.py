"""Frames and headers on the wire."""

from hivemem_contracts.frames import parse_headers
from hivemem_runtime.bus.wire import frame, header_lines, plain_frame


def test_headers_that_were_written_are_read_again() -> None:
    headers = {"Nats-Msg-Id": "m1", "ce-subject": "user.alice.%25k.a"}
    assert parse_headers(f"NATS/1.0\r\n{header_lines(headers)}\r\n".encode()) == headers


def test_a_message_is_one_frame() -> None:
    assert plain_frame("a.b", b"xy") == b"PUB a.b 2\r\nxy\r\n"
    assert frame("a.b", "X: y\r\n", b"xy", "r") == b"HPUB a.b r 18 20\r\nNATS/1.0\r\nX: y\r\n\r\nxy\r\n"
