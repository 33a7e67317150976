"""The clock of a running program jumps ahead and back."""

import subprocess
import time
from pathlib import Path

from .clocks import Clock

PROGRAM = "import time\nwhile input() == 'time':\n    print(time.time(), flush=True)\n"
NEARLY_SECONDS = 300


def test_a_clock_jumps_while_its_program_runs(tmp_path: Path) -> None:
    script = tmp_path / "tell.py"
    script.write_text(PROGRAM)
    clock = Clock(tmp_path / "clock")
    with subprocess.Popen(
        clock.of((str(script),)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for shift in (0, 3600, -3600, 0):
            clock.shift(shift)
            program.stdin.write("time\n")
            assert abs(float(program.stdout.readline()) - time.time() - shift) < NEARLY_SECONDS
        program.stdin.write("end\n")
