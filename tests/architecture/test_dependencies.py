"""Licences are known and permissive; the lock file and the lower bounds cover what we ask for."""

import re
import tomllib

import pytest
from tools import licences

SETTINGS = tomllib.loads((licences.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
NAMES = licences.direct()


def rows():
    text = licences.PAGE.read_text(encoding="utf-8")
    return dict(re.findall(r"^\| \**([a-z0-9-]+)\** \| (.+) \| [\d.]+ \|$", text, re.MULTILINE))


@pytest.mark.parametrize("name", NAMES)
def test_every_dependency_is_listed_under_a_permissive_licence(name):
    assert licences.is_allowed(rows()[name]), f"{name}: run python -m tools.licences"
    assert licences.is_allowed(licences.licence(name))


def test_what_they_bring_is_permissive_too():
    found = {name: licences.licence(name) for name in licences.tree()}
    assert [name for name, said in found.items() if not licences.is_allowed(said)] == []
    assert set(NAMES) <= set(found)
    assert not licences.is_allowed("GNU General Public License v3 (GPLv3)")
    assert not licences.is_allowed("not told")


def test_every_dependency_has_a_lower_bound():
    extras = PROJECT["optional-dependencies"].values()
    for line in [*PROJECT["dependencies"], *(line for lines in extras for line in lines)]:
        assert ">=" in line or line.startswith("rankine["), line


def test_the_lock_file_pins_everything_with_hashes():
    text = (licences.ROOT / "requirements" / "dev.lock").read_text(encoding="utf-8")
    pins = dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\$", text, re.MULTILINE))
    assert set(NAMES) <= set(pins), "run make lock"
    assert text.count("--hash=sha256:") >= len(pins)
    groups = SETTINGS["dependency-groups"].values()
    lines = [line for group in groups for line in group if isinstance(line, str)]
    wanted = {licences.plain(re.match(r"[\w.-]+", line)[0]) for line in lines}
    assert wanted <= set(pins), "run make lock"
