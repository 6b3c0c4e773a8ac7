"""Search engines from jars: ``make engines`` fetches them into ``build/engines``.

Each engine is run by one Java file of this folder, which the JDK compiles and runs.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
JARS = Path(os.environ.get("RANKINE_ENGINES", FOLDER.parents[1] / "build" / "engines"))


def require_engine(engine, artifact="*"):
    """Skip the test unless a JDK and the jars of an engine are there."""
    if shutil.which("java") is None or shutil.which("javac") is None:
        pytest.skip("no JDK is installed")
    if not any((JARS / engine).glob(f"{artifact}.jar")):
        pytest.skip(f"{engine} is not in {JARS}: make engines")


def record_run(record_property, engine, artifact, model):
    """Record the version of an engine, in the name of a jar, and the kind of model that it runs.

    ``python -m tools.docs.engines`` makes the table of the documentation from these.
    """
    (path,) = (JARS / engine).glob(f"{artifact}-[0-9]*.jar")
    record_property("engine", engine)
    record_property("version", path.stem.removeprefix(f"{artifact}-"))
    record_property("model", model)


def run_engine(engine, program, *arguments):
    """Run a Java file of this folder with the jars of an engine; return the JSON it prints."""
    require_engine(engine)
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp", f"{JARS / engine}/*",
         FOLDER / f"{program}.java", *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    # Engines write warnings to the same output.
    results = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert len(results) == 1, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(results[0].removeprefix("RESULT "))
