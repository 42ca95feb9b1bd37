"""Program that writes the hashed requirements of the test environments.

    pip install uv && python requirements/make.py

Versions are those of `constraints.txt`; run it again when that file or `pyproject.toml`
changes. PyTorch is left out: its builds for processors alone have other hashes than
those that PyPI has. What it depends on is named here instead.
"""

import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Name -> extras of `pyproject.toml`.
ENVIRONMENTS = {
    "test": ("all", "ray", "interop", "docs", "test"),
    "no-tensorflow": ("jax", "torch", "plot", "test"),
}
NEEDED_BY_TORCH = ("filelock", "fsspec", "jinja2", "networkx", "setuptools", "sympy")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        no_torch, more = Path(folder, "no_torch.txt"), Path(folder, "more.in")
        no_torch.write_text("torch; python_version < '0'\n")
        more.write_text("".join(f"{name}\n" for name in NEEDED_BY_TORCH))
        for name, extras in ENVIRONMENTS.items():
            command = ["uv", "pip", "compile", "-q", "pyproject.toml", str(more)]
            for extra in extras:
                command += ["--extra", extra]
            command += ["--constraint", "constraints.txt", "--override", str(no_torch)]
            command += ["--universal", "--python-version", "3.11", "--generate-hashes"]
            command += ["--no-annotate", "--no-emit-index-url"]
            command += ["--custom-compile-command", "python requirements/make.py"]
            command += ["--output-file", f"requirements/{name}.txt"]
            subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
