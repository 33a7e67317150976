"""Checks the rules of this repository that no linter knows: each finding is one line, file:line and its fix."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

LONGEST_FILE_LINES = 400
GENERATED = re.compile(r'"""[^\n]*\bgenerated from the contracts by `make docs`')
CODE_SUFFIXES = {".py", ".sh", ".js", ".css"}

WORKER_FILES = {
    "__init__.py",
    "__main__.py",
    "decisions.py",
    "endpoints.py",
    "entities.py",
    "ports.py",
    "py.typed",
    "reactions.py",
    "worker.py",
}
# A file that has grown long becomes a folder of the same name, one file a topic.
WORKER_FOLDERS = {"adapters", "decisions", "endpoints", "entities", "reactions"}
# A worker that has grown holds topics: folders with these files and folders inside. A topic with a port of its own
# (`ports.py`) holds that port's adapters too, under names of their own.
TOPIC_FILES = {"__init__.py", "decisions.py", "endpoints.py", "entities.py", "ports.py", "reactions.py"}
COMPOSE = "docker-compose.yml"
CATALOGUE = "contracts/hivemem_contracts/catalog.py"

BUCKETS = re.compile(r"(?:^|_)(?:utils?|commons?|helpers?|bases?|managers?|misc)$")
LEDGER_ADAPTER = re.compile(r"hivemem_runtime\.ledger\.(?:mongo|opening|sqlite)(?:\.|$)")

# Patterns that no committed line may have, and the fix. The brackets keep a pattern from finding itself.
UNWANTED_TEXT = [
    (
        re.compile(r"\b(?:pypi|pythonhosted|npmjs|debian)\.(?:org|com)\b"),
        "name the package, not the address of a registry: each machine has its own",
    ),
    (
        re.compile(r"(?<![\w.~$})/-])/(?:root|home|Users|work)/[\w.]"),
        "a path of one machine: take it from the repository, a setting or a temporary folder",
    ),
    (re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b"), "do it now, or leave it out"),
    (re.compile(r"\b[Ii]ssues? #?\d"), "say what the matter is: a number tells a reader nothing"),
]
UNWANTED_CODE = [
    (re.compile(r"\bNotImplemented[E]rror\b"), "write it, or leave the operation out"),
    (re.compile(r"^\s*#\s*[-=#*~]{4,}"), "no banners: a file that needs them is two files"),
]


@dataclass(frozen=True, order=True)
class Finding:
    path: str
    line: int
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.advice}"


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    found = sorted(findings(root, committed_files(root), settings["tool"]["tidy"]["long_files"]))
    for finding in found:
        print(finding)
    print(f"tidy: {len(found)} to mend" if found else "tidy: nothing to mend")
    return 1 if found else 0


def committed_files(root: Path) -> list[str]:
    """Return the paths of all files that git tracks, or would track with the next commit."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    return [path for path in listed if path and (root / path).is_file()]


def findings(root: Path, paths: list[str], long_files: Mapping[str, str]) -> Iterator[Finding]:
    texts = {path: text for path in paths if (text := _text(root / path)) is not None}
    for path, text in texts.items():
        yield from _name_findings(PurePosixPath(path), texts.keys())
        yield from _text_findings(PurePosixPath(path), text)
        if path.endswith(".py"):
            yield from _code_findings(PurePosixPath(path), ast.parse(text, path))
    yield from _class_findings(texts)
    written = {path: text for path, text in texts.items() if not GENERATED.match(text)}
    lengths = {path: text.count("\n") for path, text in written.items() if PurePosixPath(path).suffix in CODE_SUFFIXES}
    yield from _length_findings(lengths, long_files)
    yield from _typing_findings(set(texts))
    yield from _worker_findings(texts)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def _name_findings(path: PurePosixPath, paths: Set[str]) -> Iterator[Finding]:
    if path.suffix == ".py" and any(BUCKETS.search(part) for part in (*path.parts[:-1], path.stem)):
        yield Finding(str(path), 1, "a bucket: name the module by what it is responsible for")
    inside = _within_worker(path)
    if inside is None:
        return
    first, *rest = inside.parts
    known = first in (WORKER_FOLDERS if rest else WORKER_FILES)
    if rest and not known:
        topic = PurePosixPath(*path.parts[:4])
        known = rest[0] in (WORKER_FOLDERS if rest[1:] else TOPIC_FILES) or f"{topic}/ports.py" in paths
    if not known:
        rooms = ", ".join(sorted(WORKER_FOLDERS))
        yield Finding(
            str(path), 1, f"all workers have the same file names: put it into the folder of its room ({rooms})"
        )


def _within_worker(path: PurePosixPath) -> PurePosixPath | None:
    """Return the path inside the package of a service: `worker.py` of services/sessions/hivemem_sessions/worker.py."""
    parts = path.parts
    if len(parts) > 3 and parts[0] == "services" and parts[2] == f"hivemem_{parts[1]}":
        return PurePosixPath(*parts[3:])
    return None


def _text_findings(path: PurePosixPath, text: str) -> Iterator[Finding]:
    unwanted = UNWANTED_TEXT + (UNWANTED_CODE if path.suffix in CODE_SUFFIXES else [])
    for number, line in enumerate(text.splitlines(), start=1):
        for pattern, advice in unwanted:
            if match := pattern.search(line):
                yield Finding(str(path), number, f"`{match[0].strip()}`: {advice}")


def _code_findings(path: PurePosixPath, tree: ast.Module) -> Iterator[Finding]:
    inside = _within_worker(path)
    takes_what_it_is_given = inside is not None and str(inside) != "worker.py"
    is_test = path.parts[0] == "tests" and path.name.startswith(("test_", "conftest"))
    for node in ast.walk(tree):
        if takes_what_it_is_given and any(LEDGER_ADAPTER.match(module) for module in _imported(node)):
            yield Finding(str(path), getattr(node, "lineno", 1), "only worker.py chooses a ledger: take the port")
        if is_test and isinstance(node, ast.Call) and _sleeps(node):
            yield Finding(str(path), node.lineno, "no sleeps in tests: wait for the signal, or poll up to a bound")


def _class_findings(texts: Mapping[str, str]) -> Iterator[Finding]:
    """A public class name leads to one class of its distribution; adapters and tests have no exception."""
    projects = {PurePosixPath(path).parent for path in texts if PurePosixPath(path).name == "pyproject.toml"}
    projects -= {PurePosixPath()}
    known: dict[tuple[PurePosixPath, str], str] = {}
    for path in sorted(path for path in texts if path.endswith(".py")):
        project = next((parent for parent in PurePosixPath(path).parents if parent in projects), None)
        if project is None:
            continue
        for node in ast.walk(ast.parse(texts[path], path)):
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            first = known.setdefault((project, node.name), path)
            if first != path:
                yield Finding(path, node.lineno, f"{first} has a class {node.name} too: name one by what it adds")


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{name.name}" for name in node.names]
    return []


def _sleeps(call: ast.Call) -> bool:
    """Return whether a call waits for time to pass; a sleep of zero only lets other tasks run."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    zero = len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
    return name == "sleep" and not zero


def _length_findings(lengths: Mapping[str, int], long_files: Mapping[str, str]) -> Iterator[Finding]:
    for path, length in lengths.items():
        if length > LONGEST_FILE_LINES and path not in long_files:
            advice = f"{length} lines: split it, or give the reason in pyproject.toml under tool.tidy.long_files"
            yield Finding(path, LONGEST_FILE_LINES + 1, advice)
    for path in long_files:
        if lengths.get(path, 0) <= LONGEST_FILE_LINES:
            yield Finding("pyproject.toml", 1, f"tool.tidy.long_files: {path} is not long (any more), remove it")


def _typing_findings(paths: set[str]) -> Iterator[Finding]:
    for project in paths:
        folder = PurePosixPath(project).parent
        if PurePosixPath(project).name != "pyproject.toml" or folder == PurePosixPath("."):
            continue
        packages = {PurePosixPath(path).parent for path in paths if path.endswith("/__init__.py")}
        for package in sorted(package for package in packages if package.parent == folder):
            if f"{package}/py.typed" not in paths:
                yield Finding(str(package / "py.typed"), 1, "missing: without it nobody sees the package's types")


def _worker_findings(texts: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what the declaration of a worker lacks: an entry point, a place in the catalogue, a line of compose."""
    for project, worker in _projects(texts, "services/*/pyproject.toml"):
        name = PurePosixPath(project).parent.name
        package = f"hivemem_{name}"
        points = worker["project"].get("entry-points", {}).get("hivemem.workers", {})
        if points.get(name) != f"{package}.worker:WORKER":
            advice = f'missing: `{name} = "{package}.worker:WORKER"` under [project.entry-points."hivemem.workers"]'
            yield Finding(project, 1, advice)
        if CATALOGUE in texts and f'    "{name}",\n' not in texts[CATALOGUE]:
            yield Finding(CATALOGUE, 1, f'missing in NAMES: `"{name}",`')
        if COMPOSE in texts and f"\n  {name}:" not in texts[COMPOSE]:
            yield Finding(COMPOSE, 1, f"missing under services: `{name}: {{ <<: *worker, … }}`")


def _projects(texts: Mapping[str, str], pattern: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, text in texts.items():
        if fnmatch(path, pattern) and "project" in (table := tomllib.loads(text)):
            yield path, table


if __name__ == "__main__":
    sys.exit(main())
