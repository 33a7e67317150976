"""File names for arbitrary text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivemem_artifacts.adapters.names import NAME_BYTES, file_name, folder_name, is_file_name

AT = 1_767_225_599_000_001
STAMP = "20251231T235959.000001Z"

HOSTILE = [
    "",
    ".",
    "..",
    "...",
    "../../etc/passwd",
    "/etc/passwd",
    "a/../b",
    "a\\..\\b",
    "C:\\x",
    "a\0b",
    "a\nb",
    "a\x7fb",
    "\u202etxt.exe",
    "\u200bhidden",
    "\ufeffbom",
    "a\u2215b",
    "a\u2044b",
    "\uff0e\uff0e\uff0fetc",
    "e\u0301",
    "\ud800",
    "~",
    "%2E%2E",
    "%",
    " lead",
    "trail ",
    "trail.",
    ".hidden",
    "manifest.json",
    "-rf",
    "nul",
    "*?<>|\"'",
    "x" * 300,
    "é" * 300,
    "日本語" * 100 + ".pdf",
    "a." + "b" * 300,
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("report.pdf", "report.pdf"),
        ("Résumé 2.txt", "Résumé 2.txt"),
        ("日本.txt", "日本.txt"),
        ("reports/q1.csv", "reports%2Fq1.csv"),
        ("100%.txt", "100%25.txt"),
        ("ﬁle", "%EF%AC%81le"),
        ("e\u0301", "e%CC%81"),
    ],
)
def test_people_can_read_a_name(name: str, expected: str) -> None:
    assert file_name(AT, name) == f"{STAMP}_{expected}"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_one_harmless_name(name: str) -> None:
    for made in (file_name(AT, name), file_name(AT, name, 3), folder_name(name), folder_name(name, ".json")):
        check_harmless(made)


@given(st.text())
def test_any_text_is_one_harmless_name(name: str) -> None:
    check_harmless(file_name(AT, name))
    check_harmless(folder_name(name))


def check_harmless(made: str) -> None:
    assert made not in ("", ".", "..")
    assert made.isprintable()
    assert not set(made) & set('/\\<>:"|?*')
    assert not made.startswith((".", " ")) or made.endswith(".json")
    assert not made.endswith((".", " "))
    assert len(made.encode()) <= NAME_BYTES


@given(st.sets(st.text() | st.sampled_from(HOSTILE) | st.text(alphabet="./%~ 2EF", min_size=1), min_size=2))
def test_different_text_has_different_names(texts: set[str]) -> None:
    assert len({file_name(AT, text) for text in texts}) == len(texts)
    assert len({folder_name(text) for text in texts}) == len(texts)


def test_a_long_name_keeps_its_beginning_and_its_suffix() -> None:
    made = file_name(AT, "chapter " * 60 + ".tar")
    assert made.startswith(f"{STAMP}_chapter chapter")
    assert made.endswith(".tar")
    assert made != file_name(AT, "chapter " * 61 + ".tar")


@pytest.mark.parametrize("name", ["notes.txt", "manifest.json", "2025_report", "20251231T235959Z_a", ""])
def test_what_people_put_beside_the_files_is_told_apart(name: str) -> None:
    assert not is_file_name(name)
    assert is_file_name(file_name(AT, name))
    assert is_file_name(file_name(AT, name, 2))
