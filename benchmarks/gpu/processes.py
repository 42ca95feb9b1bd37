"""Parts of a benchmark that run in processes of their own, as `python -m`."""

import os
import subprocess
import sys


def output_of(module, *arguments, environment=None, seconds=None):
    """What a module prints.

    Args:
        module: its name, in the folder of benchmarks.
        arguments: of its command line.
        environment: added to that of this process; its errors are on the terminal.
        seconds: the most that it may take.

    Raises:
        subprocess.SubprocessError: it fails, or takes longer.
    """
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=seconds,
    ).stdout
