"""The parser of a server's bytes accepts whatever publishers put into messages."""

import random
from collections.abc import Iterator

import pytest

from hivemem_contracts.frames import LINE_BYTES, BrokenStream, Delivered, Frames, Line, parse_headers

HEADERS: dict[bytes, dict[str, str]] = {
    b"NATS/1.0\r\nNats-Msg-Id: m1\r\nce-type: hivemem.memory.put\r\n\r\n": {
        "Nats-Msg-Id": "m1",
        "ce-type": "hivemem.memory.put",
    },
    b"NATS/1.0\r\nName:value\r\nTab:\tvalue\r\nWide :  a b  \r\n\r\n": {"Name": "value", "Tab": "value", "Wide": "a b"},
    b"NATS/1.0\r\nEmpty:\r\nColons: a:b:c\r\n\r\n": {"Empty": "", "Colons": "a:b:c"},
    b"NATS/1.0\r\nno header\r\n\r\n": {},
    b"NATS/1.0\r\ntwo words: x\r\nline\nfeed: x\r\n\r\n": {},
    "NATS/1.0\r\nUmlaut: \u00e4\r\n\u00dcber: x\r\nSpace: \u00a0x\u2003\r\n\r\n".encode(): {
        "Umlaut": "\u00e4",
        "Space": "\u00a0x\u2003",
    },
    b"NATS/1.0\r\nBroken: \xff\xc3\r\nAfter: \xc3\xa4\r\n\r\n": {"Broken": "\\xff\\xc3", "After": "\u00e4"},
    b"NATS/1.0\r\nTwice: 1\r\nTwice: 2\r\n\r\n": {"Twice": "2"},
    b"NATS/1.0\r\n\r\n": {},
    b"\r\n\r\n": {},
    b"\r\nName: value\r\n\r\n": {"Name": "value"},
    b"": {},
    b"NATS/1.0 503\r\n\r\n": {"Status": "503"},
    b"NATS/1.0 404 No Messages\r\n\r\n": {"Status": "404", "Description": "No Messages"},
    b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 7\r\n\r\n": {
        "Status": "100",
        "Description": "Idle Heartbeat",
        "Nats-Last-Consumer": "7",
    },
    b"NATS/1.0 \xff\xff\xff\r\n\r\n": {},
    b"NATS/1.0 40\r\n\r\n": {},
    "NATS/1.0 \u0664\u0660\u0664\r\n\r\n".encode(): {},
}


@pytest.mark.parametrize("block", HEADERS)
def test_what_can_be_read_of_a_header_block_is_read(block: bytes) -> None:
    found = parse_headers(block)
    assert found == HEADERS[block]
    assert found.block == block


def test_a_header_line_cannot_pass_for_a_status_of_the_server() -> None:
    assert parse_headers(b"NATS/1.0\r\nStatus: 404\r\nDescription: x\r\nOther: y\r\n\r\n") == {"Other": "y"}
    said = parse_headers(b"NATS/1.0 100 Idle Heartbeat\r\nStatus: 404\r\nDescription: x\r\n\r\n")
    assert said == {"Status": "100", "Description": "Idle Heartbeat"}


PIECES = (b"NATS/1.0", b"\r\n", b"\r", b"\n", b" ", b":", b"Status", b"404", b"Nats-Pin-Id: ", b"\0", b"\xff\xfe", b"a")


def odd_blocks(count: int) -> Iterator[bytes]:
    chosen = random.Random(5)
    for number in range(count):
        if number % 2:
            yield chosen.randbytes(chosen.randrange(64))
        else:
            yield b"".join(chosen.choices(PIECES, k=chosen.randrange(24)))


def test_no_header_block_raises() -> None:
    for block in odd_blocks(50_000):
        for name, value in parse_headers(block).items():
            assert (name + value).encode()


def message(subject: bytes, reply: bytes, headers: bytes, data: bytes) -> bytes:
    reply_part = reply + b" " if reply else b""
    sizes = b"%d %d" % (len(headers), len(headers) + len(data)) if headers else b"%d" % len(data)
    return b"%bMSG %b 7 %b%b\r\n%b%b\r\n" % (b"H" if headers else b"", subject, reply_part, sizes, headers, data)


SAID = [
    b'INFO {"a": 1}\r\n',
    b"PING\r\n",
    message(b"a.b", b"", b"", b"plain"),
    message(b"a.b", b"5", b"", b"reply of digits"),
    message(b"a.b", b"_INBOX.x", b"NATS/1.0\r\n\r\n", b"PING\r\n"),
    message(b"a.b", b"6", b"\r\n\r\n", b""),
    message(b"a\x0bb", b"r\x0c\x85", b"", b""),
    message(b"caf\xc3\xa9", b"\xff", b"x", b"\r\n"),
    b"MSG a.b 7  2\r\n{}\r\n",
    b"HMSG a.b 7  1 2\r\nx}\r\n",
    b"-ERR 'Slow Consumer'\r\n",
]
HEARD = [
    Line(b"INFO", b'{"a": 1}'),
    Line(b"PING", b""),
    Delivered(b"a.b", 7, b"", b"", b"plain"),
    Delivered(b"a.b", 7, b"5", b"", b"reply of digits"),
    Delivered(b"a.b", 7, b"_INBOX.x", b"NATS/1.0\r\n\r\n", b"PING\r\n"),
    Delivered(b"a.b", 7, b"6", b"\r\n\r\n", b""),
    Delivered(b"a\x0bb", 7, b"r\x0c\\x85", b"", b""),
    Delivered(b"caf\xc3\xa9", 7, b"\\xff", b"x", b"\r\n"),
    Delivered(b"a.b", 7, b"", b"", b"{}"),
    Delivered(b"a.b", 7, b"", b"x", b"}"),
    Line(b"-ERR", b"'Slow Consumer'"),
]


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1_000])
def test_frames_are_the_same_however_the_bytes_are_cut(piece: int) -> None:
    sent, frames = b"".join(SAID), Frames()
    heard = [frame for start in range(0, len(sent), piece) for frame in frames.feed(sent[start : start + piece])]
    assert heard == HEARD


def test_what_comes_before_a_clearing_is_not_read_on() -> None:
    frames = Frames()
    heard = frames.feed(SAID[1] + SAID[2])
    assert next(heard) == HEARD[1]
    frames.clear()
    assert list(heard) == []
    assert list(frames.feed(SAID[2])) == [HEARD[2]]


@pytest.mark.parametrize(
    "sent",
    [
        b"MSG a\r\n",
        b"MSG a 1\r\n",
        b"MSG a 1 r x\r\n",
        b"MSG a 1 -5\r\n",
        b"HMSG a 1 5\r\n",
        b"HMSG a 1 7 5\r\nhello\r\n",
        b"MSG a 1 5\r\nhello there",
        b"x" * (LINE_BYTES + 1),
    ],
)
def test_what_is_no_protocol_breaks_the_stream(sent: bytes) -> None:
    with pytest.raises(BrokenStream):
        list(Frames().feed(sent))


def test_no_bytes_do_more_than_break_the_stream() -> None:
    chosen = random.Random(7)
    whole = b"".join(SAID)
    for _ in range(20_000):
        sent = bytearray(whole)
        for _ in range(chosen.randrange(1, 4)):
            sent[chosen.randrange(len(sent))] = chosen.randrange(256)
        try:
            list(Frames().feed(bytes(sent)))
        except BrokenStream:
            continue
