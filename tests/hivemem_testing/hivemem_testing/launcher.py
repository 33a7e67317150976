"""Runs as `python launcher.py PARENT_PID PROGRAM ARGUMENT...` and becomes that program.

The kernel kills the program when its parent is gone, so a test run that dies by kill -9 leaves no server behind. This
is a process of its own because a `preexec_fn` runs in the fork of a process with threads, where it may hang.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, program, arguments = int(sys.argv[1]), sys.argv[2], sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died before this request; then the signal would never come.
        if os.getppid() != parent:
            sys.exit("the parent is gone")
    os.execv(program, arguments)


if __name__ == "__main__":
    main()
