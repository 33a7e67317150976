"""Logs are one JSON object per line on standard error, or lines for a person."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from hivemem_runtime import logs


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_each_line_is_json_with_its_level_time_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json")
    log = structlog.get_logger("test")
    log.debug("unheard")
    log.info("héard", number=5, thing=object)
    try:
        raise ValueError("why")
    except ValueError:
        log.exception("failed")
    captured = capsys.readouterr()
    assert captured.out == ""
    first, second = (json.loads(line) for line in captured.err.splitlines())
    assert (first["event"], first["level"], first["number"]) == ("héard", "info", 5)
    assert first["timestamp"].endswith("Z")
    assert (second["event"], second["level"]) == ("failed", "error")
    assert "ValueError: why" in second["exception"]


def test_the_level_is_the_least_that_is_heard(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("warning", "json")
    log = structlog.get_logger("test")
    log.info("unheard")
    log.warning("heard")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["heard"]


def test_lines_for_a_person_are_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("debug", "console")
    structlog.get_logger("test").debug("heard", number=5)
    line = capsys.readouterr().err
    assert "heard" in line
    assert "number=5" in line
    assert not line.startswith("{")


def test_warnings_of_libraries_are_heard_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    logs.configure()
    logging.getLogger("library").info("unheard")
    logging.getLogger("library").warning("heard")
    assert capsys.readouterr().err == "WARNING library heard\n"
