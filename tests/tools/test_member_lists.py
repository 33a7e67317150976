"""All distributions have the version of the contracts, and require exactly this version of one another."""

from pathlib import Path

import pytest

import declarations
import member_lists

ROOT = Path(__file__).resolve().parents[2]
PROJECT = """[project]
name = "hivemem"
version = "0.1.0"
dependencies = [
    "hivemem-contracts",
    "hivemem-stars[far,near]==0.1.0",
    "hivemem-starship",
    "orjson>=3.10,<4",
]

[tool.uv.build-backend]
module-name = "hivemem"
"""


def test_a_project_gets_the_version_and_requires_it_of_the_other_distributions() -> None:
    text = member_lists.of_version(PROJECT, "1.2.0", ["hivemem", "hivemem-contracts", "hivemem-stars"])
    expected = PROJECT.replace("0.1.0", "1.2.0").replace('"hivemem-contracts"', '"hivemem-contracts==1.2.0"')
    assert text == expected
    assert member_lists.of_version(text, "1.2.0", ["hivemem", "hivemem-contracts", "hivemem-stars"]) == expected


@pytest.mark.parametrize("stale", ["shared/client/pyproject.toml", "apps/embedded/pyproject.toml"])
def test_a_new_version_of_the_contracts_makes_the_other_projects_stale(tmp_path: Path, stale: str) -> None:
    for name in member_lists.files(ROOT):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    contracts = tmp_path / member_lists.CONTRACTS
    contracts.write_text(
        contracts.read_text(encoding="utf-8").replace('version = "', 'version = "7.'), encoding="utf-8"
    )
    (tmp_path / "docker-compose.yml").touch()

    text = member_lists.files(tmp_path)[stale]

    assert any(line.startswith(f'{stale}: + version = "7.') for line in declarations.differences(tmp_path, stale, text))
