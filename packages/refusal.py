"""The build of the source package. It refuses, because Rowstream isn't built by Python."""

import platform
import sys

HAS_WHEEL = """\
rowstream-server has a wheel for Linux on {machine}, but the installer chose the source package.
Install it without --no-binary, with a 64-bit Python and the newest pip."""

HAS_NONE = """\
rowstream-server has programs for Linux on x86_64 and aarch64, but this is {system} on {machine}.
Run it in a container with Linux. For another processor, build it in a clone of Rowstream's repository: \
cargo install --path ."""


def refuse(*_: object) -> None:
    system, machine = platform.system(), platform.machine()
    has_wheel = system == "Linux" and machine in ("x86_64", "aarch64")
    sys.exit((HAS_WHEEL if has_wheel else HAS_NONE).format(system=system, machine=machine))


get_requires_for_build_wheel = build_wheel = get_requires_for_build_sdist = build_sdist = refuse
