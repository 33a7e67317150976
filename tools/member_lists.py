"""What tools want written out: the members of the workspace, their common version, and the settings of its workers."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from hivemem_runtime.settings import PREFIX, WorkerSettings

CONTRACTS: Final = "contracts/pyproject.toml"
EMBEDDED: Final = "apps/embedded/pyproject.toml"
NEW_WORKER: Final = "docs/new-worker.md"
SETTING_NAMES: Final = "shared/runtime/hivemem_runtime/setting_names.py"
LINE: Final = 120

_NAME: Final = re.compile(r"[\w-]+")


def files(root: Path) -> Mapping[str, str]:
    """Return the files with such text in them, by their path in the repository."""
    return {
        "pyproject.toml": _workspace(root),
        SETTING_NAMES: "\n".join(_setting_names(root)) + "\n",
        **_of_one_version(root),
    }


def of_version(text: str, version: str, names: Iterable[str]) -> str:
    """Return the text of a project with a version, which it also requires of each distribution in `names`."""
    named = "|".join(map(re.escape, sorted(names)))
    text = re.sub(r'(?m)^version = ".*"$', f'version = "{version}"', text)
    return re.sub(rf'(?<!name = )"({named})(\[[\w,-]+\])?(==[^"]*)?"', rf'"\1\2=={version}"', text)


def members(root: Path) -> list[Path]:
    """Return the folders of the distributions, in the order in which they stand on one another."""
    levels = ("contracts", "shared/*", "services/*", "apps/*", "tests/*")
    return [project.parent for level in levels for project in sorted(root.glob(f"{level}/pyproject.toml"))]


def workers(root: Path) -> list[str]:
    return sorted(project.parent.name for project in root.glob("services/*/pyproject.toml"))


def _of_one_version(root: Path) -> Mapping[str, str]:
    """Return all projects with the version of the contracts, and the example of a project in the documents."""
    projects = {folder.relative_to(root).as_posix() + "/pyproject.toml": folder for folder in members(root)}
    texts = {path: (root / path).read_text(encoding="utf-8") for path in (*projects, NEW_WORKER)}
    texts[EMBEDDED] = _embedded(root)
    names = {str(tomllib.loads(texts[path])["project"]["name"]) for path in projects}
    version = str(tomllib.loads(texts[CONTRACTS])["project"]["version"])
    return {path: of_version(text, version, names) for path, text in texts.items()}


def _workspace(root: Path) -> str:
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    folders = [folder.relative_to(root).as_posix() for folder in members(root)]
    product = [_package(folder) for folder in members(root) if folder.parent != root / "tests"]
    packages = [f"hivemem_{name}" for name in workers(root)]
    apps = [_package(folder) for folder in members(root) if folder.parent == root / "apps"]
    layers = [" | ".join(sorted([*apps, *packages])), "hivemem | hivemem_runtime", "hivemem_contracts"]
    text = re.sub(r'(?m)^mypy_path = ".*"$', f'mypy_path = "{":".join([*folders, "tools"])}"', text)
    text = _with_array(text, "source", sorted(["hivemem_runtime", *packages]))
    text = _with_array(text, "root_packages", sorted(product))
    return _with_array(text, "layers", layers)


def _package(folder: Path) -> str:
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["tool"]["uv"]["build-backend"]["module-name"])


def _embedded(root: Path) -> str:
    """Return the project of the fleet in one process, which brings every worker. Requirements that are there stay."""
    text = (root / EMBEDDED).read_text(encoding="utf-8")
    table = tomllib.loads(text)
    brought = {f"hivemem-{name}": f"hivemem-{name}" for name in workers(root)}
    brought |= {_distribution(line): line for line in table["project"]["dependencies"]}
    text = _with_array(text, "dependencies", [brought[name] for name in sorted(brought)])
    workspace = sorted(name for name in brought if name.startswith("hivemem"))
    sources = "\n".join(f"{name} = {{ workspace = true }}" for name in workspace)
    return re.sub(r"(?s)(\[tool\.uv\.sources\]\n).*?(\n\n)", rf"\1{sources}\2", text)


def _distribution(requirement: str) -> str:
    found = _NAME.match(requirement)
    assert found is not None, requirement
    return found[0]


def _with_array(text: str, key: str, items: Iterable[str]) -> str:
    """Return TOML with another array under a key, which begins exactly one line."""
    written = [f'"{item}"' for item in items]
    line = f"{key} = [{', '.join(written)}]"
    if len(line) > LINE or key in ("dependencies", "layers"):
        line = "\n".join([f"{key} = [", *(f"    {item}," for item in written), "]"])
    text, times = re.subn(rf"(?ms)^{key} = \[.*?\]$", lambda _: line, text)
    assert times == 1, f"{key} stands there {times} times"
    return text


def _setting_names(root: Path) -> Iterator[str]:
    compose = (root / "docker-compose.yml").read_text(encoding="utf-8")
    interpolated = set(re.findall(rf"\$\{{{PREFIX}(\w+)", compose))
    own: set[str] = set()
    for name in workers(root):
        kind: Any = import_module(f"hivemem_{name}.worker").WORKER
        own |= kind.settings.model_fields.keys() - WorkerSettings.model_fields.keys()
    yield '"""The names of all settings, generated by `make docs`: every worker knows the settings of other workers."""'
    yield from ("", "from typing import Final", "")
    yield from _tuple("OF_WORKERS", own)
    yield from _tuple("OF_COMPOSE", {name.lower() for name in interpolated} - WorkerSettings.model_fields.keys())


def _tuple(name: str, items: Iterable[str]) -> Iterator[str]:
    yield from (f"{name}: Final = (", *(f'    "{item}",' for item in sorted(items)), ")")
