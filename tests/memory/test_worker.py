"""The memory worker as a program names the settings with which it cannot start."""

import sys
from pathlib import Path

import pytest

from hivemem_memory.worker import WORKER, MemorySettings, build
from hivemem_runtime.program import main
from hivemem_runtime.settings import SettingsError


def test_a_wrong_setting_ends_it_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HIVEMEM_STORE", "postgres")
    assert main(WORKER, []) == 2
    said = capsys.readouterr().err
    assert said.startswith("hivemem-memory: HIVEMEM_STORE='postgres'")
    assert said.count("\n") == 1


def test_a_missing_driver_is_named_with_what_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hivemem_runtime.ledger.mongo", None)
    with pytest.raises(SettingsError, match=r"HIVEMEM_STORE=mongo .* hivemem-memory\[mongo\]"):
        build(MemorySettings(store="mongo"))


def test_its_file_is_its_own(tmp_path: Path) -> None:
    worker = build(MemorySettings(data=tmp_path))
    assert worker.name == "memory"
    assert list(tmp_path.iterdir()) == [], "nothing is there before it starts"
