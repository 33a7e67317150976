"""Reads dialogues from the files of a folder, which it recognises by their shape.

- LoCoMo (snap-research/locomo): a list of objects with `conversation` and `qa`; each file is a set of its own.
- REALTALK (danny911kr/REALTALK): an object with `session_1`, … and `qa`; the files of a folder are one set.
- BEAM (mohammadtavakoli78/BEAM): `chat.json` beside `probing_questions/probing_questions.json`; the conversations of a
  folder are one set.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.quality.dialogues import Dataset, Dialogue, Question, Turn

LOCOMO_CATEGORIES: Final = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
UNANSWERABLE: Final = ("adversarial", "abstention")
_TURN: Final = re.compile(r"D:?(\d+):(\d+)")
_SESSION: Final = re.compile(r"session_(\d+)")
_TIMES: Final = ("%I:%M %p on %d %B, %Y", "%d.%m.%Y, %H:%M:%S", "%B-%d-%Y")


def read(folder: Path) -> list[Dataset]:
    """Return the sets below a folder; other JSON files are skipped. Raises `ValueError` if there are none, or if a file
    is not what it seems to be."""
    found: dict[str, list[Dialogue]] = defaultdict(list)
    for file in sorted(folder.rglob("*.json")):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if _is_locomo(content):
                found[file.stem] += [_locomo(one["sample_id"], one["conversation"], one["qa"]) for one in content]
            elif isinstance(content, dict) and {"session_1", "qa"} <= content.keys():
                found[file.parent.name].append(_locomo(file.stem, content, content["qa"]))
            elif file.name == "chat.json":
                found[f"BEAM {file.parent.parent.name}"].append(_beam(file, content))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file}: not the shape that it seems to have: {error!r}") from error
    if not found:
        raise ValueError(f"{folder}: no file in the shape of LoCoMo, REALTALK or BEAM")
    for name, dialogues in found.items():
        if not any(question.answerable for dialogue in dialogues for question in dialogue.questions):
            raise ValueError(f"{folder}: no answerable question of {name} names a turn as its evidence")
    return [
        Dataset(name, [replace(dialogue, name=f"{name}/{dialogue.name}") for dialogue in dialogues])
        for name, dialogues in found.items()
    ]


def _is_locomo(content: Any) -> bool:
    return isinstance(content, list) and any(isinstance(one, dict) and "conversation" in one for one in content[:1])


def _locomo(name: str, sessions: dict[str, Any], questions: list[dict[str, Any]]) -> Dialogue:
    numbers = sorted(int(match[1]) for key in sessions if (match := _SESSION.fullmatch(key)))
    turns = [
        Turn(
            turn["dia_id"],
            f"{name}-{number}",
            turn["speaker"],
            _with_caption(turn),
            _time(turn.get("date_time") or sessions[f"session_{number}_date_time"]),
        )
        for number in numbers
        for turn in sessions[f"session_{number}"]
    ]
    asked = ((one["question"], _category(one["category"]), _turn_ids(one.get("evidence", []))) for one in questions)
    return _dialogue(name, turns, asked)


def _with_caption(turn: dict[str, Any]) -> str:
    text, caption = turn.get("clean_text") or turn.get("text") or "", turn.get("blip_caption")
    return f"{text} [{caption}]" if caption else text


def _category(given: int | str) -> str:
    return LOCOMO_CATEGORIES[given] if isinstance(given, int) else given


def _turn_ids(evidence: Iterable[str]) -> Iterator[str]:
    """Yield ids such as `D1:3`; some entries hold several, or write them in another way."""
    for entry in evidence:
        for session, turn in _TURN.findall(entry):
            yield f"D{int(session)}:{int(turn)}"


def _beam(file: Path, batches: list[dict[str, Any]]) -> Dialogue:
    turns: list[Turn] = []
    name = file.parent.name
    for batch in batches:
        messages = [message for group in batch["turns"] for message in group]
        at = next((_time(anchor) for message in messages if (anchor := message.get("time_anchor"))), None)
        session = f"{name}-{batch['batch_number']}"
        turns += [Turn(str(one["id"]), session, one["role"], one["content"], at) for one in messages]
    probing = json.loads((file.parent / "probing_questions" / "probing_questions.json").read_text(encoding="utf-8"))
    asked = (
        (one["question"], category, map(str, _numbers(one.get("source_chat_ids"))))
        for category, questions in probing.items()
        for one in questions
    )
    return _dialogue(name, turns, asked)


def _numbers(value: Any) -> Iterator[int]:
    """Yield the numbers of a list, or of the lists of an object."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _numbers(one)


def _dialogue(name: str, turns: list[Turn], asked: Iterable[tuple[str, str, Iterable[str]]]) -> Dialogue:
    """Keep the questions whose evidence names turns, each without a doubt."""
    counts = Counter(turn.id for turn in turns)
    questions = [
        Question(text, category, evidence, category not in UNANSWERABLE)
        for text, category, ids in asked
        if (evidence := frozenset(id for id in ids if counts[id])) and all(counts[id] == 1 for id in evidence)
    ]
    return Dialogue(name, turns, questions)


def _time(text: str) -> datetime:
    for form in _TIMES:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise ValueError(f"{text!r} is no time in one of the forms {_TIMES}")
