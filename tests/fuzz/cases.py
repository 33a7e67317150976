"""Case `number` of a seed has the same bytes each time, except for cursors and ids from the fleet."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from hivemem_contracts.artifacts.chunks import CHUNK_HEADER, CRC32_HEADER, content_subject, workspace_subject
from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.errors import ALL_ERRORS, Internal, Overloaded, Unavailable
from hivemem_contracts.operations import COMMON_ERRORS, WRITE_ERRORS, AnyOperation
from hivemem_contracts.sessions.operations import APPEND, CREATE
from hivemem_contracts.subjects import command_subject, request_subject

from .bodies import IDS, POOLS, WORKSPACES, Bodies, Known, anything
from .cursors import forged
from .expressions import EVENTS, guarded_machine, state_to_guard
from .odd import TOKENS, huge_bytes, mutated, odd_bytes, odd_headers, odd_value, places

TENANT: Final = "fuzz"
AGENT: Final = "bot"
OPERATIONS: Final = tuple(operation for service in SERVICES for operation in service)
FREE: Final = ("value", "patch", "metadata", "content", "state_delta", "initial_state", "text", "data_base64", "a")
"""Fields that accept any JSON value of an agent."""

GUARDED: Final = 300
SIZES: Final = (0, 1, 5, -1, 2**53, 10**18, "1", None, True)
HUGE_BYTES: Final = (999_999, 1_000_000, 1_000_001, 4_000_000, 8_000_000)
UNAVAILABLE_AT_TIMES: Final = (
    *("vectors", "agents", "windows"),
    *("sessions.list", "artifacts.workspace_commit", "artifacts.workspace_delete"),
)
"""Services and operations that may answer Unavailable: some ask another worker that may be too slow, a state index may
be incomplete, and a deletion may be under way. No server is away here, and fewer requests are under way than one tenant
may have."""


@dataclass(frozen=True, slots=True)
class Case:
    """One message. Without an operation it is a chunk of bytes; a durable one is answered by the stream."""

    number: int
    kind: str
    operation: AnyOperation | None
    subject: bytes
    headers: bytes
    body: bytes
    durable: bool = False

    @property
    def name(self) -> str:
        return self.operation.full_name if self.operation else self.kind

    @property
    def codes(self) -> frozenset[int]:
        """Return the error codes that the answer may have besides success."""
        if self.operation is None:
            # A chunk is Unavailable while an earlier one is missing.
            return frozenset(error.code for error in ALL_ERRORS if error not in (Internal, Overloaded))
        errors = (*(WRITE_ERRORS if self.operation.writes else COMMON_ERRORS), *self.operation.errors)
        at_times = self.operation.service in UNAVAILABLE_AT_TIMES or self.name in UNAVAILABLE_AT_TIMES
        passing = (Overloaded,) if at_times else (Overloaded, Unavailable)
        return frozenset(error.code for error in errors if error not in (Internal, *passing))

    def __str__(self) -> str:
        sent = f"{self.subject[:200]!r} headers={self.headers[:300]!r} body={self.body[:1_500]!r}"
        return f"case {self.number}, {self.kind} {self.name} ({len(self.body)} bytes): {sent}"


class Cases:
    """Cases of all kinds for all operations in turn, so that any number of cases covers each operation."""

    def __init__(self, seed: int, known: Known) -> None:
        self._seed = seed
        self._known = known
        self._bodies = {operation: Bodies(operation, known) for operation in OPERATIONS}
        self._with_cursors = [operation for operation in OPERATIONS if operation.full_name in known.cursors]
        self._kinds: list[tuple[int, Callable[[int, Random], Case]]] = [
            (30, self._mutated),
            (55, self._bytes),
            (70, self._headers),
            (80, self._valid),
            (88, self._durable),
            (95, self._cursor),
            (97, self._chunk),
            (98, self._subject),
            (102, self._guard),
            (104, self._heavy),
        ]

    def __getitem__(self, number: int) -> Case:
        random = Random(self._seed << 32 | number)
        draw = random.randrange(104)
        return next(make for below, make in self._kinds if draw < below)(number, random)

    def operation(self, number: int) -> AnyOperation:
        return OPERATIONS[number % len(OPERATIONS)]

    def _request(self, number: int, kind: str, body: bytes, headers: bytes = b"") -> Case:
        return request(number, kind, self.operation(number), body, headers)

    def valid_body(self, number: int, random: Random) -> dict[str, Any]:
        return self._bodies[self.operation(number)].make(random)

    def mutated_body(self, number: int, random: Random) -> bytes:
        bodies = self._bodies[self.operation(number)]
        return dumped(mutated(bodies.make(random), bodies.schema, random))

    def _valid(self, number: int, random: Random) -> Case:
        return self._request(number, "valid", dumped(self.valid_body(number, random)))

    def _mutated(self, number: int, random: Random) -> Case:
        return self._request(number, "mutated", self.mutated_body(number, random))

    def _bytes(self, number: int, random: Random) -> Case:
        return self._request(number, "bytes", odd_bytes(dumped(self.valid_body(number, random)), random))

    def _headers(self, number: int, random: Random) -> Case:
        body = dumped(self.valid_body(number, random))
        return self._request(number, "headers", body, odd_headers(random))

    def _durable(self, number: int, random: Random) -> Case:
        operation = self.operation(number)
        route = random.choice((*IDS, "a", "ü", "x" * 200))
        subject = command_subject(TENANT, AGENT, operation.service, operation.name, route).encode()
        body = dumped(self.valid_body(number, random))
        body = (body, self.mutated_body(number, random), odd_bytes(body, random))[random.randrange(3)]
        headers = odd_headers(random) if random.random() < 0.3 else b""
        return Case(number, "durable", operation, subject, headers, body, durable=True)

    def _cursor(self, number: int, random: Random) -> Case:
        operation = self._with_cursors[number % len(self._with_cursors)]
        body = self._bodies[operation].make(random)
        real = random.choice(self._known.cursors[operation.full_name])
        if random.random() < 0.1:
            real = random.choice(self._known.cursors[random.choice(self._with_cursors).full_name])
        body["cursor"] = forged(real, random)
        return request(number, "cursor", operation, dumped(body))

    def _chunk(self, number: int, random: Random) -> Case:
        headers = odd_headers(random)
        if random.random() < 0.7:
            index = random.choice((b"0", b"0", b"1", b"7", b"8", b"9007199254740993", b"-1", b"", b"\xff", b"1e3"))
            crc = random.choice((b"", b"%b: 00000000\r\n" % CRC32_HEADER.encode()))
            headers = b"NATS/1.0\r\n%b: %b\r\n%b\r\n" % (CHUNK_HEADER.encode(), index, crc)
        if random.random() < 0.5:
            subject = random.choice(self._known.chunk_subjects).encode()
            return Case(number, "chunk up", None, subject, headers, random.randbytes(random.choice((0, 1, 5, 70_000))))
        if random.random() < 0.3:
            ranges = [[random.choice(POOLS["sha256"]), *random.choices(SIZES, k=random.randrange(4))]]
            subject = workspace_subject(TENANT, AGENT, random.choice((*WORKSPACES, "..", "ü"))).encode()
            body = dumped(ranges * random.choice((0, 1, 1_001)))
            body = body if random.random() < 0.7 else odd_bytes(body, random)
            return Case(number, "ranges", None, subject, odd_headers(random), body)
        version = random.choice((0, 1, 2, 2**53, 10**18))
        place = content_subject(TENANT, AGENT, random.choice(IDS), random.choice(("a.txt", "..", "ü")), version)
        subject = place.encode()
        if random.random() < 0.5:
            subject = subject[: subject.rfind(b".") + 1] + random.choice((b"-1", b"x", b"%", b"\xff", b"1e3", b"007"))
        return Case(number, "chunk down", None, subject, headers, b"" if random.random() < 0.8 else b"\0" * 99)

    def _subject(self, number: int, random: Random) -> Case:
        case = self._valid(number, random)
        tokens = case.subject.split(b".")
        tokens[random.choice((2, 3))] = random.choice(TOKENS)
        return Case(number, "subject", case.operation, b".".join(tokens), b"", case.body)

    def _guard(self, number: int, random: Random) -> Case:
        """Return a session with a machine of its own, or an event for an earlier one."""
        session = f"g{random.randrange(GUARDED)}"
        if random.random() < 0.4:
            body = {"session_id": session, "app_name": "crm", "user_id": "ann", "initial_state": state_to_guard(random)}
            return request(number, "guard", CREATE, dumped({**body, "machine": guarded_machine(random)}))
        event = {"type": random.choice(EVENTS), "content": anything(random)}
        return request(number, "guard", APPEND, dumped({"session_id": session, "event": event}))

    def _heavy(self, number: int, random: Random) -> Case:
        """Return a large valid body, or now and then one far over the limit."""
        if random.random() < 0.1:
            return self._request(number, "huge", huge_bytes(random.choice(HUGE_BYTES), random))
        body = self.valid_body(number, random)
        large = ("x" * 200_000, ["x"] * 30_000, [anything(random) for _ in range(5_000)], {"k" * 250_000: 1})
        container, name = random.choice([place for place in places(body, []) if place[1] in FREE] or [(body, "extra")])
        container[name] = random.choice(large) if random.random() < 0.8 else [odd_value(random)] * 900
        return self._request(number, "heavy", dumped(body)[: HUGE_BYTES[-1]])


def request(number: int, kind: str, operation: AnyOperation, body: bytes, headers: bytes = b"") -> Case:
    subject = request_subject(TENANT, AGENT, operation.service, operation.name)
    return Case(number, kind, operation, subject.encode(), headers, body)


def dumped(body: object) -> bytes:
    """Return JSON as a careless client writes it: with NaN, and with lone surrogates."""
    return json.dumps(body, separators=(",", ":")).encode()
