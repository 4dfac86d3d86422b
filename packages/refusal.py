"""The build of the source package. It refuses, because Rowstream isn't built by Python."""

import platform
import sys


def refuse(*_: object) -> None:
    sys.exit(
        "rowstream-server has programs for Linux on x86_64 and aarch64, "
        f"but this is {platform.system()} on {platform.machine()}.\n"
        "Run it in a container with Linux. For another processor, build it in a clone of Rowstream's "
        "repository: cargo install --path ."
    )


get_requires_for_build_wheel = build_wheel = get_requires_for_build_sdist = build_sdist = refuse
