"""Frames and headers as they travel."""

import pytest
from nats.aio.client import Client

from hivemem_runtime.bus.wire import frame, header_lines, parse_header_lines, plain_frame

SENT = (
    b"Nats-Msg-Id: m1\r\nce-type: hivemem.memory.put\r\n\r\n",
    b"Name:value\r\nTab:\tvalue\r\nWide :  a b  \r\n",
    b"Empty:\r\nColons: a:b:c\r\n",
    b"no header\r\n:\r\n: nameless\r\n",
    b"two words: x\r\ntab\tbed: x\r\nline\nfeed: x\r\n",
    "Umlaut: \u00e4\r\n\u00dcber: x\r\nSpace: \u00a0x\u2003\r\n".encode(),
    b"Broken: \xff\xc3\r\nAfter: \xc3\xa4\r\n",
    b"Twice: 1\r\nTwice: 2\r\n",
    b"",
)


@pytest.mark.parametrize("sent", SENT)
def test_headers_are_read_as_the_client_library_reads_them(sent: bytes) -> None:
    assert parse_header_lines(sent) == Client._parse_header_lines(sent)  # pyright: ignore[reportPrivateUsage]  # it is replaced


def test_headers_that_were_written_are_read_again() -> None:
    headers = {"Nats-Msg-Id": "m1", "ce-subject": "user.alice.%25k.a"}
    assert parse_header_lines(header_lines(headers).encode()) == headers


def test_a_message_is_one_frame() -> None:
    assert plain_frame("a.b", b"xy") == b"PUB a.b 2\r\nxy\r\n"
    assert frame("a.b", "X: y\r\n", b"xy", "r") == b"HPUB a.b r 18 20\r\nNATS/1.0\r\nX: y\r\n\r\nxy\r\n"
