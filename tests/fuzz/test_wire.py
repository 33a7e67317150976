"""In this process, each reader of header blocks, frames, subjects and cursors accepts or refuses any bytes."""

from collections.abc import Callable
from random import Random
from typing import Final

import pytest

from hivemem.cursor import Cursor
from hivemem_contracts.artifacts.chunks import parse_content_subject, parse_upload_subject, parse_workspace_subject
from hivemem_contracts.changes import traceparent_of
from hivemem_contracts.frames import BrokenStream, Delivered, Frames, parse_headers
from hivemem_contracts.subjects import decode_token, encode_token, parse_change_subject, sender_of
from hivemem_runtime.ledger.cursor import decode_cursor, encode_cursor
from hivemem_runtime.paging import Bookmark

from .cursors import forged
from .numbers import CASES, CODEC_SHARE
from .odd import KEYS, NUMBERS, TEXTS, odd_bytes, odd_headers, odd_value
from .refusals import refused

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + CASES // 100)]

COUNT: Final = int(CASES * CODEC_SHARE)
SUBJECTS: Final = (b"a", b"a\x0bb", b"\xff", b"x" * 99)
STREAM: Final = b"HMSG a 1 _I.b 12 14\r\nNATS/1.0\r\n\r\n{}\r\nMSG a 1 2\r\n{}\r\nPING\r\n" * 2
ESCAPES: Final = ("%k", "%", "%41", "%C3", "%ED%A0%80", "%zz", "\xff")
TOKENS: Final = ("hive", "chg", "a", "", "x" * 900, *ESCAPES, *TEXTS[:14])


def test_any_header_block_is_read(seed: int) -> None:
    random = Random(seed)
    for _ in range(COUNT):
        block = odd_headers(random)
        headers = parse_headers(block)
        assert headers.block == block
        assert all("\r\n" not in value for value in headers.values())
        traceparent_of(headers)


def test_frames_come_out_as_they_went_in_however_they_are_cut(seed: int) -> None:
    random = Random(seed)
    for _ in range(COUNT):
        sent = [(odd_headers(random), random.randbytes(9)) for _ in range(2)]
        stream = b"".join(
            b"HMSG %b 1 %d %d\r\n%b%b\r\n" % (random.choice(SUBJECTS), len(block), len(block + data), block, data)
            for block, data in sent
        )
        frames, got, place = Frames(), list[Delivered](), 0
        while place < len(stream):
            size = random.randrange(1, 2_000)
            got += [item for item in frames.feed(stream[place : place + size]) if isinstance(item, Delivered)]
            place += size
        assert [(item.headers, item.data) for item in got] == sent


def test_a_broken_stream_ends_as_one(seed: int) -> None:
    random, broken = Random(seed), 0
    for _ in range(COUNT):
        data = odd_bytes(STREAM, random) if random.random() < 0.1 else STREAM
        for _ in range(random.randrange(1, 4)):
            place = random.randrange(len(data) + 1)
            data = data[:place] + random.randbytes(random.randrange(3)) + data[place + random.randrange(4) :]
        try:
            list(Frames().feed(data))
        except BrokenStream:
            broken += 1
    assert 0 < broken < COUNT


def test_any_text_is_one_token_and_comes_back(seed: int) -> None:
    random = Random(seed)
    for _ in range(COUNT):
        text = random.choice(TEXTS) + chr(random.randrange(0x110000)) + random.choice(KEYS)
        if refused(encode_token, text) is None:
            assert decode_token(encode_token(text)) == text
            assert not set(encode_token(text)) & set(" .*>\r\n")


def test_any_subject_is_read_or_refused(seed: int) -> None:
    random = Random(seed)
    for _ in range(COUNT):
        some = [random.choice(TOKENS).replace(".", "") for _ in range(9)]
        # The subscriptions of chunks guarantee the number of tokens.
        refused(parse_upload_subject, ".".join(some[:8]))
        refused(parse_content_subject, ".".join(some))
        refused(parse_workspace_subject, ".".join(some[:7]))
        refused(parse_change_subject, ".".join(("hive", "chg", *some[: random.randrange(9)])))
        refused(sender_of, some[0], some[1])


def test_any_cursor_is_read_or_refused(seed: int) -> None:
    random, book = Random(seed), Bookmark("list", "a")
    readers: tuple[Callable[[str], object], ...] = (
        lambda cursor: decode_cursor(cursor, (str, int, (int, float), (str, type(None)))),
        lambda cursor: book.find(cursor, str, int),
        lambda cursor: Cursor.parse(cursor),
    )
    for _ in range(COUNT):
        parts = (random.choice(("a", "", "ü")), random.choice(NUMBERS[:7]), 1.5, None)
        sound = random.choice((encode_cursor(*parts), book.put(*parts[:2]), str(Cursor(1, 2, "1-a", 3))))
        cursor = forged(sound, random) if random.random() < 0.7 else odd_value(random)
        for read in readers:
            refused(read, str(cursor)[:4_096])
