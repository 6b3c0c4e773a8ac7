"""Bundle compiled kernels in the wheel when ``RANKINE_KERNELS`` names a folder of them.

``make wheel`` fills the folder with ``rankine warmup --into`` first. Such a wheel is for one
version of Python on one platform. Without the variable the wheel is pure Python.
"""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def wheel_tag() -> str:
    """Return the tag of a wheel with kernels for this Python and platform."""
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    return f"{python}-none-{_platform_tag()}"


def _platform_tag() -> str:
    # The bundled code is loaded by Numba and links to no system library, so the oldest platform is
    # that of Numba's own wheels.
    if sys.platform == "linux":
        return f"manylinux_2_28_{platform.machine()}"
    if sys.platform == "darwin":
        return f"macosx_11_0_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


class KernelsHook(BuildHookInterface):
    """Add the folder of kernels to the wheel as ``rankine/_kernels``, and set the wheel's tag."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Change the build data before a wheel is written."""
        chosen = os.environ.get("RANKINE_KERNELS")
        if self.target_name != "wheel" or not chosen:
            return
        folder = Path(chosen)
        if not (folder / "baseline.json").is_file():
            raise FileNotFoundError(
                f"RANKINE_KERNELS={folder} has no baseline.json. Fill the folder with "
                "rankine warmup --into first"
            )
        build_data["force_include"][str(folder)] = "rankine/_kernels"
        build_data["pure_python"] = False
        build_data["tag"] = wheel_tag()
