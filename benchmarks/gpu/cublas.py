"""The cuBLAS that CTranslate2 finds, whichever CUDA PyTorch or JAX has brought along.

CTranslate2 loads `libcublas.so.12` by name. Where there is only CUDA 13's, a link of
that name serves: the functions that CTranslate2 calls are the same in both.
"""

import site
import sys
from pathlib import Path

_LIBRARIES = ("libcublas.so", "libcublasLt.so")
_WANTED, _LATER = "12", "13"


def environment(folder, places=None):
    """The environment in which CTranslate2 finds cuBLAS; {} where there is none.

    Args:
        folder: for links, where they are needed.
        places: folders to look in, and below; default: where `pip` puts the packages of
            NVIDIA, and where CUDA itself is installed.
    """
    places = _places() if places is None else places
    found = _folder(places, _WANTED)
    if found is None:
        later = _folder(places, _LATER)
        if later is None:
            return {}
        found = Path(folder)
        found.mkdir(parents=True, exist_ok=True)
        for library in _LIBRARIES:
            link = found / f"{library}.{_WANTED}"
            if not link.is_symlink():
                link.symlink_to(later / f"{library}.{_LATER}")
    return {"LD_LIBRARY_PATH": str(found)}


def _folder(places, version):
    """The first folder that has all the libraries of a version."""
    for place in places:
        for path in sorted(Path(place).glob(f"**/{_LIBRARIES[0]}.{version}")):
            if all((path.parent / f"{n}.{version}").exists() for n in _LIBRARIES):
                return path.parent.resolve()
    return None


def _places():
    packages = [*site.getsitepackages(), site.getusersitepackages(), *sys.path]
    installed = [Path(package, "nvidia") for package in packages if package]
    return [*dict.fromkeys(installed), *sorted(Path("/usr/local").glob("cuda*"))]
