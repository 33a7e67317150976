"""Definitions in files: values as in JSON, and errors with their line and column."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from hivemem.definition_files import parse_definitions, read_definitions
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.model import RequestBody


class Part(RequestBody):
    id: str
    count: int = 1


class Plan(RequestBody):
    name: str
    parts: list[Part] = Field(default_factory=list[Part])
    notes: dict[str, Any] = Field(default_factory=dict[str, Any])


def test_yaml_and_json_hold_the_values_of_json(tmp_path: Path) -> None:
    file = tmp_path / "plans.yaml"
    file.write_text("name: a\nnotes: {on: no, at: 2026-11-19, time: 1:30, n: 1.5, none: null}\n---\nname: &n b\n")
    first, second = read_definitions(file, Plan)
    assert first.value["notes"] == {"on": "no", "at": "2026-11-19", "time": "1:30", "n": 1.5, "none": None}
    assert (first.body.name, second.body.name) == ("a", "b")
    other = tmp_path / "plan.json"
    other.write_text('{\n\t"name": "c",\n\t"parts": [{"id": "x", "count": 2}]\n}')
    (third,) = read_definitions(other, Plan)
    assert third.body == Plan(name="c", parts=[Part(id="x", count=2)])


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("name: a\nparts:\n  - id: x\n    cout: 2\n", 4, 5, "parts.0.cout: no such field (did you mean 'count'?)"),
        ("name: a\nparts:\n  - id: x\n    count: many\n", 4, 12, "parts.0.count: "),
        ("name: a\nparts:\n  - count: 2\n", 3, 5, "parts.0.id: this field is required"),
        ("name: a\nname: b\n", 2, 1, "this key is there twice"),
        ("name: [a\n", 2, 1, "not YAML"),
        ("- a\n", 1, 1, "a mapping is wanted"),
        ("", 1, 1, "no document"),
        ("name: !!python/name:os.system x\n", 1, 7, "tag"),
        ("name: a\nnotes: {x: &x [*x]}\n", 2, 12, "over"),
    ],
)
def test_an_error_names_the_line_and_the_column(text: str, line: int, column: int, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_definitions(text, "plan.yaml", Plan)
    assert caught.value.detail.startswith(f"plan.yaml:{line}:{column}: ")
    assert said in caught.value.detail
    assert (caught.value.context["line"], caught.value.context["column"]) == (line, column)


def test_a_few_lines_that_stand_for_billions_of_values_are_refused() -> None:
    lines = ["name: a", "notes:", "  a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(InvalidRequest, match="over 200000 values"):
        parse_definitions("\n".join(lines), "plan.yaml", Plan)


def test_an_error_of_a_worker_gets_the_place_of_its_field() -> None:
    (found,) = parse_definitions("name: a\nparts:\n  - {id: x}\n  - {id: x}\n", "plan.yaml", Plan)
    error = found.located(InvalidRequest("plan.parts.1.id: twice", field="plan.parts.1.id"), "plan")
    assert error.detail == "plan.yaml:4:10: plan.parts.1.id: twice"
