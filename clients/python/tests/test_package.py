"""The files that are published."""

import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

PROJECT = Path(__file__).parents[1]
LICENSES = ("LICENSE-APACHE", "LICENSE-MIT")


def built(project: Path, kind: str, folder: Path) -> Path:
    """The package of this kind, built offline."""
    command = (sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder))
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (package,) = folder.iterdir()
    return package


class Package(unittest.TestCase):
    def test_a_wheel_is_built_from_the_source_package(self) -> None:
        """Links to the repository's licenses would lead nowhere."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with tarfile.open(built(PROJECT, "sdist", folder / "sdist")) as package:
                self.assertTrue(all(member.isfile() for member in package.getmembers()))
                package.extractall(folder / "source", filter="data")
            (source,) = (folder / "source").iterdir()
            with zipfile.ZipFile(built(source, "wheel", folder / "wheel")) as wheel:
                names = {Path(name).name for name in wheel.namelist()}
        self.assertLessEqual({*LICENSES, "py.typed", "aio.py"}, names)

    def test_the_licenses_are_those_of_the_repository(self) -> None:
        for name in LICENSES:
            own = PROJECT / name
            self.assertFalse(own.is_symlink())
            self.assertEqual(own.read_bytes(), (PROJECT.parents[1] / name).read_bytes())


if __name__ == "__main__":
    unittest.main()
