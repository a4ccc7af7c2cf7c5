"""This file tells setuptools which folders make up the package; all else is in pyproject.toml.

The folders of the top level are parts of one package, which pyproject.toml can only say with a list of every package.
"""

from setuptools import find_packages, setup

FOLDERS = {
    "onnxc": "compiler",
    "onnxc.dialects": "dialects",
    "onnxc.passes": "passes",
    "onnxc.runtime": "runtime_stub",
}

setup(
    package_dir=FOLDERS,
    packages=[
        ".".join((package, below)) if below else package
        for package, folder in FOLDERS.items()
        for below in ("", *find_packages(folder))
    ],
)
