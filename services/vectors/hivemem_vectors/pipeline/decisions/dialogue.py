"""The points of events: what is said in a dialogue is often understood from what was said before and after it.

So the points of an event take over a part of the words of its neighbours, and its vectors are a mean with theirs. The
day on which it was said is among its words, too.
"""

from collections.abc import Container, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import numpy as np

from hivemem_vectors.embedders.ports import Embeddings
from hivemem_vectors.pipeline.decisions.keywords import SCHEME, WORDS_PER_TEXT, TextWords, text_words
from hivemem_vectors.pipeline.decisions.points import point_of, turn_of
from hivemem_vectors.pipeline.entities import Mirror, session_of
from hivemem_vectors.stores.ports import Point

LENT: Final = ((0.7, 0.5), (0.5, 0.25))
"""For the next neighbour and the one after that: the share of its words' weights, and the weight of its vector."""

REACH: Final = len(LENT)


class Turn(NamedTuple):
    """An event of a dialogue with the embeddings of its chunks."""

    place: str
    mirror: Mirror
    rows: Embeddings

    @property
    def sequence(self) -> int:
        assert self.mirror.version is not None, "a turn is a version"
        return self.mirror.version


def turns_around(events: Iterable[tuple[str, int]]) -> list[str]:
    """Return the `turn` values of these events, given their places and sequences, and of those within reach."""
    around = {
        turn_of(session_of(place), near)
        for place, sequence in events
        for near in range(max(sequence - REACH, 1), sequence + REACH + 1)
    }
    return sorted(around)


def dialogue_points(tenant: str, turns: Iterable[Turn], wanted: Container[str]) -> list[Point]:
    """Return the points of the wanted places, given all turns of their sessions that are within reach."""
    ordered = sorted(turns, key=lambda turn: (session_of(turn.place), turn.sequence))
    pieces = [(turn, chunk) for turn in ordered for chunk in range(len(turn.mirror.texts))]
    words = [text_words(turn.mirror.texts[chunk], _day(turn.mirror)) for turn, chunk in pieces]
    points: list[Point] = []
    for at, (turn, chunk) in enumerate(pieces):
        if turn.place in wanted:
            near = _neighbours(pieces, at)
            weights = dict(words[at].weights)
            row = turn.rows[chunk].astype(np.float32)
            for other, of_words, of_vector in near:
                row = row + of_vector * pieces[other][0].rows[pieces[other][1]]
                for term, weight in words[other].weights.items():
                    if term in weights or len(weights) < 2 * WORDS_PER_TEXT:
                        weights[term] = max(weights.get(term, 0.0), of_words * weight)
            lent = TextWords(weights, words[at].words)
            unit = row / (np.linalg.norm(row) or 1.0)
            points.append(point_of(tenant, turn.place, turn.mirror, chunk, unit, lent, SCHEME))
    return points


def _neighbours(pieces: Sequence[tuple[Turn, int]], at: int) -> list[tuple[int, float, float]]:
    """Return the neighbours of a piece with what they lend: its words, and its vector."""
    turn = pieces[at][0]
    return [
        (other, *lent)
        for distance, lent in enumerate(LENT, 1)
        for other in (at - distance, at + distance)
        if 0 <= other < len(pieces) and _is_near(turn, pieces[other][0], distance)
    ]


def _is_near(turn: Turn, other: Turn, distance: int) -> bool:
    return session_of(turn.place) == session_of(other.place) and abs(turn.sequence - other.sequence) <= distance


def _day(mirror: Mirror) -> str:
    """Return the day of an event in words."""
    day = datetime.fromtimestamp(mirror.fields["updated_at"] / 1_000_000, UTC)
    return f"{day.day} {day:%B} {day.year}"
