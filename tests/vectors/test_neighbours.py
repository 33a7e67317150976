"""Neighbours in a dialogue lend one another words and meaning."""

import numpy as np
import pytest

from hivemem_vectors.pipeline.decisions.dialogue import LENT, Turn, dialogue_points, turns_around
from hivemem_vectors.pipeline.decisions.keywords import SCHEME, text_words, word_index
from hivemem_vectors.pipeline.decisions.points import turn_of
from hivemem_vectors.pipeline.entities import Mirror, event_place
from hivemem_vectors.stores.ports import Point

MAY_8_2023 = 1_683_540_000_000_000
ALL = range(8)


def turn(sequence: int, text: str, session: str = "s") -> Turn:
    fields = {"updated_at": MAY_8_2023, "created_by": "ann"}
    rows = np.zeros((1, len(ALL)), np.float32)
    rows[0, sequence] = 1.0
    return Turn(event_place(session, f"e{sequence}"), Mirror(sequence, fields, [text], [0]), rows)


def weight(point: Point, word: str) -> float:
    assert point.sparse is not None
    return dict(zip(point.sparse.indices, point.sparse.values, strict=True)).get(word_index(word), 0.0)


def test_two_neighbours_on_either_side_lend_their_words() -> None:
    texts = ["zero", "violin", "lake", "tea", "boat", "owl"]
    turns = [turn(sequence, text) for sequence, text in enumerate(texts)]

    [point] = dialogue_points("acme", turns, {turns[3].place})

    own = weight(point, "tea")
    assert own > 1
    assert weight(point, "lake") == weight(point, "boat") == pytest.approx(LENT[0][0] * own)
    assert weight(point, "violin") == weight(point, "owl") == pytest.approx(LENT[1][0] * own)
    assert weight(point, "zero") == 0
    expected = np.array([0, LENT[1][1], LENT[0][1], 1, LENT[0][1], LENT[1][1], 0, 0])
    np.testing.assert_allclose(point.dense, expected / np.linalg.norm(expected), atol=1e-6)
    assert point.values["scheme"] == SCHEME
    assert point.values["turn"] == turn_of("s", 3)


def test_a_word_of_its_own_counts_as_its_own() -> None:
    turns = [turn(1, "tea"), turn(2, "tea"), turn(3, "owl")]

    points = dialogue_points("acme", turns, {turn.place for turn in turns})

    assert [weight(point, "tea") for point in points[:2]] == [weight(points[0], "tea")] * 2


def test_other_sessions_and_distant_events_lend_nothing() -> None:
    turns = [turn(1, "lake", "other"), turn(2, "tea"), turn(5, "owl")]

    [point] = dialogue_points("acme", turns, {turns[1].place})

    assert weight(point, "lake") == weight(point, "owl") == 0
    assert point.dense[2] == 1


def test_an_event_is_found_by_its_day() -> None:
    [point] = dialogue_points("acme", [turn(1, "tea")], {turn(1, "tea").place})

    assert min(weight(point, word) for word in ("8", "may", "2023")) > 0
    assert point.values["words"] == text_words("tea").words == 1


def test_the_turns_around_events_are_named_once() -> None:
    places = [(event_place("s", f"e{sequence}"), sequence) for sequence in (1, 2)]

    assert turns_around(places) == sorted(turn_of("s", sequence) for sequence in (1, 2, 3, 4))
