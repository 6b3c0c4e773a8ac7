"""Build a wheel with compiled kernels for this platform, and check that it compiles nothing.

    python -m tools.platform_wheel     # or: make wheel

Works alike on Linux, macOS and Windows. The wheel is written to ``dist``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "build" / "kernels"
DIST = ROOT / "dist"

WARMUP = "from rankine.cli.main import run; run()"
#: Train with the unpacked wheel; print the seconds of compiling.
TRAIN = """
import sys
import rankine
from rankine.kernels.compile import CLOCK
assert rankine.__file__.startswith(sys.argv[1]), rankine.__file__
rankine.RankSVM().fit(rankine.shop_log(30, random_state=0))
print(CLOCK.seconds)
"""


def build_wheel() -> Path:
    """Compile the kernels, build the wheel and return its path."""
    shutil.rmtree(KERNELS, ignore_errors=True)
    command = [sys.executable, "-c", WARMUP, "warmup", "--into", str(KERNELS)]
    subprocess.run(command, check=True)  # noqa: S603 - our own interpreter and code
    known = set(DIST.glob("*.whl"))
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(DIST)]
    environment = {**os.environ, "RANKINE_KERNELS": str(KERNELS)}
    subprocess.run([*command, str(ROOT)], check=True, env=environment)  # noqa: S603
    wheels = set(DIST.glob("*-none-*.whl")) - set(DIST.glob("*-none-any.whl"))
    return max(wheels - known or wheels, key=lambda path: path.stat().st_mtime)


def check_wheel(wheel: Path) -> None:
    """Raise if a training with the wheel and an empty cache compiles anything."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()  # as Python will report it: no links, no short names
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        environment = {
            **os.environ,
            "PYTHONPATH": str(folder),
            "RANKINE_CACHE_DIR": str(folder / "cache"),
        }
        seconds = subprocess.run(  # noqa: S603
            [sys.executable, "-c", TRAIN, str(folder)],
            check=True,
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
        ).stdout
        if float(seconds) > 0:
            raise SystemExit(
                f"{wheel.name} compiled for {float(seconds):.1f} s in a first training"
            )


if __name__ == "__main__":
    path = build_wheel()
    check_wheel(path)
    print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")  # noqa: T201
