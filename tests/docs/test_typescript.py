"""The example in TypeScript passes the compiler, strictly, and runs to its end; wrong bodies do not compile."""

import shutil
from pathlib import Path
from typing import Final

import pytest

from hivemem_testing.javascript import JavaScript, javascript

from .fleet import Fleet
from .markdown import ROOT

EXAMPLE: Final = "examples/plain_nats.ts"
TYPES: Final = "docs/types/hivemem.d.ts"

WRONG: Final = """\
import type { Change, HiveError, Request } from "./docs/types/hivemem.d.ts";

// @ts-expect-error a field is missing
export const missing: Request<"memory.put"> = { namespace: "user:bob", value: 1 };
// @ts-expect-error no such field
export const unknown: Request<"memory.get"> = { namespace: "user:bob", key: "k", keys: [] };
// @ts-expect-error no such status
export const status: Request<"sessions.set_status"> = { session_id: "s", status: "asleep" };

export function told(change: Change): string | undefined {
  if (change.entity === "event") return change.value?.event_id;
  // @ts-expect-error a session has no event id
  if (change.entity === "session" && change.operation === "created") return change.value?.event_id;
  return undefined;
}

export function retried(error: HiveError): boolean {
  if (error.code !== 42901) return false;
  const name: "Overloaded" = error.name;
  return name === error.name && error.retryable;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> JavaScript:
    for name in (EXAMPLE, TYPES):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return javascript(tmp_path)


def test_the_types_tell_right_from_wrong(program: JavaScript) -> None:
    (program.folder / "wrong.ts").write_text(WRONG)
    program.typescript(EXAMPLE, TYPES, "wrong.ts")


def test_the_example_runs_to_its_end(program: JavaScript, fleet: Fleet) -> None:
    lines = program.node(EXAMPLE, environment=fleet.environment()).splitlines()
    assert lines[1] == 'plain put user:bob: {"colour":"teal"}'
    assert lines[-2].startswith("an error looks like this: NotFound: ")
    assert lines[-1] == "done"
