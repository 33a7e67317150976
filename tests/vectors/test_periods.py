"""The periods that a question names."""

from datetime import UTC, date, datetime

import pytest

from hivemem_contracts.vectors.requests import Recall
from hivemem_vectors.pipeline.entities import event_place
from hivemem_vectors.recall.decisions.filters import Question
from hivemem_vectors.recall.decisions.periods import PERIODS, CalendarDate, Days, in_periods, periods_of
from hivemem_vectors.recall.decisions.ranking import PERIOD_HINT, hints_of


def microseconds(year: int, month: int, day: int, hour: int = 0) -> int:
    return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp()) * 1_000_000


NOW = microseconds(2026, 11, 19, 12)  # a Thursday


@pytest.mark.parametrize(
    ("question", "period"),
    [
        ("What did she paint on October 13, 2023?", CalendarDate(2023, 10, 13)),
        ("what was there on the 1st of may", CalendarDate(None, 5, 1)),
        ("Who came in May?", CalendarDate(None, 5, None)),
        ("Who came in late May 2024?", CalendarDate(2024, 5, None)),
        ("Who came in 2024?", CalendarDate(2024, None, None)),
        ("What is due 2026-11-20", CalendarDate(2026, 11, 20)),
        ("What did we say yesterday?", Days(date(2026, 11, 18), date(2026, 11, 18))),
        ("the day before yesterday", Days(date(2026, 11, 17), date(2026, 11, 17))),
        ("last week", Days(date(2026, 11, 9), date(2026, 11, 15))),
        ("last weekend", Days(date(2026, 11, 14), date(2026, 11, 15))),
        ("last Thursday", Days(date(2026, 11, 12), date(2026, 11, 12))),
        ("two weeks ago", Days(date(2026, 11, 2), date(2026, 11, 8))),
        ("11 months ago", CalendarDate(2025, 12, None)),
        ("last year", CalendarDate(2025, None, None)),
    ],
)
def test_a_named_period_is_read(question: str, period: object) -> None:
    assert periods_of(question, NOW) == (period,)


@pytest.mark.parametrize("question", ["May I march on?", "What happened since last week?", "and before May 2023?", ""])
def test_other_questions_name_no_period(question: str) -> None:
    assert periods_of(question, NOW) == ()


def test_only_some_periods_of_a_question_count() -> None:
    assert len(periods_of(" ".join(f"in {year}" for year in range(1900, 2099)), NOW)) == PERIODS


def test_an_event_of_the_period_or_a_day_beside_it_is_preferred() -> None:
    question = Question.of("default", Recall(query="What did we talk about on 13 October 2023?"), NOW)
    place = event_place("s-1", "e-1")
    for moment, hints in (
        (microseconds(2023, 10, 13, 23), 1 + PERIOD_HINT),
        (microseconds(2023, 10, 14, 5), 1 + PERIOD_HINT),
        (microseconds(2023, 10, 16), 1.0),
    ):
        assert hints_of(question, place, (), "", moment) == hints
    assert hints_of(question, "user:alice", (), "", microseconds(2023, 10, 13)) == 1.0, "a memory has no such time"


@pytest.mark.parametrize("moment", [microseconds(1, 1, 1), microseconds(9999, 12, 31, 23)])
def test_times_at_the_ends_of_the_calendar_are_looked_at(moment: int) -> None:
    assert not in_periods(periods_of("in May", NOW), moment)
