"""Puts compiled kernels into the wheel when ``RANKINE_KERNELS`` names a folder of them.

``make wheel`` fills the folder by ``rankine warmup --into`` first. Such a wheel is for one version
of Python on one kind of machine; without the variable the wheel is pure Python, as published.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelsHook(BuildHookInterface):
    """Adds the folder as ``rankine/_kernels`` and names the platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Called before a wheel is written."""
        chosen = os.environ.get("RANKINE_KERNELS")
        if self.target_name != "wheel" or not chosen:
            return
        folder = Path(chosen)
        if not (folder / "baseline.json").is_file():
            raise FileNotFoundError(f"{folder} was not filled by rankine warmup --into")
        build_data["force_include"][str(folder)] = "rankine/_kernels"
        build_data["pure_python"] = False
        python = f"cp{sysconfig.get_python_version().replace('.', '')}"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"{python}-none-{platform}"
