"""Builds the packages `rowstream-server` for PyPI and npm from released programs:

    python3 packages/build.py FOLDER x86_64=PROGRAM aarch64=PROGRAM

It writes the files below FOLDER/python and FOLDER/npm. The same programs and sources give the same bytes.
Both must be empty, so that no older package is published with these.
GITHUB_REPOSITORY names the repository in npm's packages.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import re
import stat
import struct
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

NAME = "rowstream-server"
MODULE = NAME.replace("-", "_")
DESCRIPTION = "Rowstream: SQL in a file becomes a streaming HTTP endpoint"
OWN = Path(__file__).parent
REPOSITORY = OWN.parent
LICENSES = ("LICENSE-APACHE", "LICENSE-MIT")
PYTHON = ">=3.8"
# ZIP has no earlier time.
ZIP_TIME = (1980, 1, 1, 0, 0, 0)


class File(NamedTuple):
    data: bytes
    mode: int = 0o644


Files = Mapping[str, File]
# npm's names for processors.
NODE_PROCESSORS = {"x86_64": "x64", "aarch64": "arm64"}
# Those of ELF.
MACHINES = {"x86_64": 62, "aarch64": 183}


def version() -> str:
    """The workspace's version, which both indexes must accept as it is."""
    manifest = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())
    version: str = manifest["workspace"]["package"]["version"]
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(f"error: PyPI and npm write the version {version} differently: use three numbers")
    return version


def licenses(folder: str) -> dict[str, File]:
    return {f"{folder}{name}": File((REPOSITORY / name).read_bytes()) for name in LICENSES}


def write_tar(path: Path, top: str, files: Files) -> None:
    """Writes the files below the folder `top` of an archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, file in sorted(files.items()):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mode = len(file.data), file.mode
            tar.addfile(entry, io.BytesIO(file.data))
    path.write_bytes(gzip.compress(packed.getvalue(), 6, mtime=0))


def write_zip(path: Path, files: Files) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in files.items():
            entry = zipfile.ZipInfo(name, ZIP_TIME)
            # The same on each system.
            entry.create_system, entry.compress_type = 3, zipfile.ZIP_DEFLATED
            entry.external_attr = (stat.S_IFREG | file.mode) << 16
            archive.writestr(entry, file.data)


def metadata(version: str) -> File:
    """The page of the package on PyPI."""
    head = [
        "Metadata-Version: 2.4",
        f"Name: {NAME}",
        f"Version: {version}",
        f"Summary: {DESCRIPTION}",
        f"Requires-Python: {PYTHON}",
        "License-Expression: Apache-2.0 OR MIT",
        *(f"License-File: {name}" for name in LICENSES),
        "Description-Content-Type: text/markdown",
    ]
    return File("\n".join([*head, "", (OWN / "README.md").read_text()]).encode())


def record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def write_wheel(folder: Path, version: str, processor: str, program: bytes) -> None:
    """A static program runs on every Linux, so the wheel has the oldest tags."""
    platforms = (f"manylinux2014_{processor}", f"musllinux_1_1_{processor}")
    about = f"{MODULE}-{version}.dist-info"
    tags = "".join(f"Tag: py3-none-{platform}\n" for platform in platforms)
    wheel = f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\n{tags}"
    files = {
        f"{MODULE}-{version}.data/scripts/{NAME}": File(program, 0o755),
        **licenses(f"{about}/licenses/"),
        f"{about}/METADATA": metadata(version),
        f"{about}/WHEEL": File(wheel.encode()),
    }
    record = "".join(record_line(name, file.data) for name, file in files.items())
    files[f"{about}/RECORD"] = File(f"{record}{about}/RECORD,,\n".encode())
    write_zip(folder / f"{MODULE}-{version}-py3-none-{'.'.join(platforms)}.whl", files)


def write_refusal(folder: Path, version: str) -> None:
    """A source package, which pip builds on systems without a wheel. Its build explains that."""
    project = [
        "[build-system]",
        "requires = []",
        'build-backend = "refusal"',
        'backend-path = ["."]',
        "",
        "[project]",
        f'name = "{NAME}"',
        f'version = "{version}"',
        f'requires-python = "{PYTHON}"',
    ]
    files = {
        **licenses(""),
        "PKG-INFO": metadata(version),
        "pyproject.toml": File("\n".join([*project, ""]).encode()),
        "refusal.py": File((OWN / "refusal.py").read_bytes()),
    }
    name = f"{MODULE}-{version}"
    write_tar(folder / f"{name}.tar.gz", name, files)


def node_package(processor: str) -> str:
    return f"@rowstream/server-linux-{NODE_PROCESSORS[processor]}"


def write_npm(folder: Path, manifest: Mapping[str, object], files: Files) -> None:
    """Provenance needs the repository, which the release workflow knows."""
    source = os.environ.get("GITHUB_REPOSITORY")
    repository = {"repository": {"type": "git", "url": f"git+https://github.com/{source}.git"}}
    manifest = {
        **manifest,
        "description": DESCRIPTION,
        "license": "Apache-2.0 OR MIT",
        "publishConfig": {"access": "public"},
        **(repository if source else {}),
    }
    files = {
        **files,
        **licenses(""),
        "README.md": File((OWN / "README.md").read_bytes()),
        "package.json": File((json.dumps(manifest, indent=2) + "\n").encode()),
    }
    name = str(manifest["name"]).removeprefix("@").replace("/", "-")
    write_tar(folder / f"{name}-{manifest['version']}.tgz", "package", files)


def write_node_program(folder: Path, version: str, processor: str, program: bytes) -> None:
    manifest = {
        "name": node_package(processor),
        "version": version,
        "os": ["linux"],
        "cpu": [NODE_PROCESSORS[processor]],
        "preferUnplugged": True,
    }
    write_npm(folder, manifest, {NAME: File(program, 0o755)})


def write_node_command(folder: Path, version: str) -> None:
    """The package that users name. npm installs the program for their system with it."""
    command = f"{NAME}.mjs"
    manifest = {
        "name": NAME,
        "version": version,
        "bin": {NAME: command},
        "engines": {"node": ">=20"},
        "optionalDependencies": {node_package(processor): version for processor in NODE_PROCESSORS},
    }
    write_npm(folder, manifest, {command: File((OWN / command).read_bytes(), 0o755)})


def read_program(path: str, processor: str) -> bytes:
    """A program, if it's one for Linux on this processor."""
    program = Path(path).read_bytes()
    if program[:6] != b"\x7fELF\x02\x01" or len(program) < 64:
        sys.exit(f"error: {path} isn't a program for Linux (ELF, 64 bits): use a released one")
    (machine,) = struct.unpack_from("<H", program, 18)
    if machine != MACHINES[processor]:
        expected = MACHINES[processor]
        sys.exit(f"error: {path} isn't for {processor}: its ELF machine is {machine} instead of {expected}")
    return program


def create_empty(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        sys.exit(f"error: {folder} isn't empty: remove its files, or choose another folder")
    return folder


def main() -> None:
    folder, *arguments = sys.argv[1:] or [""]
    parts = (argument.partition("=") for argument in arguments)
    paths = {processor: path for processor, _, path in parts}
    if paths.keys() != NODE_PROCESSORS.keys():
        sys.exit("usage: python3 packages/build.py FOLDER x86_64=PROGRAM aarch64=PROGRAM")
    programs = {processor: read_program(path, processor) for processor, path in paths.items()}
    number = version()
    python, npm = create_empty(Path(folder, "python")), create_empty(Path(folder, "npm"))
    for processor, program in programs.items():
        write_wheel(python, number, processor, program)
        write_node_program(npm, number, processor, program)
    write_refusal(python, number)
    write_node_command(npm, number)


if __name__ == "__main__":
    main()
