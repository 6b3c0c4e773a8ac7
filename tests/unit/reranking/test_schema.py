"""Rules files are checked when they are read, and errors name the entry."""

import msgspec
import pytest

from rankine.core.errors import SchemaError
from rankine.reranking import Rules
from rankine.reranking.schema import RuleSet, parse_rules, read_rules

pytestmark = pytest.mark.kernels

GOOD = """
[[pin]]
name = "campaign"
where = "sku == 'A17'"
position = 1
from = 2026-11-20
until = 2026-11-30T12:00:00+01:00

[[at_most]]
column = "brand"
count = 2
first = 10

[[diversify]]
by = ["brand", "category"]
weight = 0.25
"""


def write(tmp_path, text):
    path = tmp_path / "rules.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_and_json_give_the_same_rules(tmp_path):
    spec = read_rules(write(tmp_path, GOOD))
    assert spec.pin[0].start == "2026-11-20"
    assert Rules(spec).names == ("campaign", "at_most 1", "diversify 1")
    assert Rules(spec).columns == ("sku", "brand", "category")
    assert msgspec.json.decode(msgspec.json.encode(spec), type=RuleSet) == spec


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[[pin]]\nwhere = 'x > 1'\npositon = 1", "pin 1"),
        ("[[pin]]\nname = 'c'\nwhere = 'x > 1'\nposition = 0", r"pin 1 \(c\)"),
        ("[[pin]]\nwhere = 'x >> 1'\nposition = 1", "pin 1"),
        ("[[boost]]\nwhere = 'x > 1'\namount = -1.0", "boost 1"),
        ("[[boost]]\nwhere = 'x > 1'\namount = 1.0\nfrom = 'soon'", "boost 1"),
        (
            "[[bury]]\nwhere = 'x > 1'\namount = 1.0\nfrom = 2026-02-02\nuntil = 2026-02-01",
            "bury 1",
        ),
        ("[[at_most]]\ncount = 1\nfirst = 5", "at_most 1"),
        ("[[at_most]]\ncolumn = 'a'\nwhere = 'b > 1'\ncount = 1\nfirst = 5", "at_most 1"),
        ("[[at_least]]\nwhere = 'x > 1'\ncount = 6\nfirst = 5", "at_least 1"),
        ("[[diversify]]\nweight = 0.1", "diversify 1"),
        ("[[diversify]]\nby = 'a'\nweight = 1.5", "diversify 1"),
        ("[[spread]]\ncolumn = 3", "spread 1"),
        (
            "[[filter]]\nwhere = 'a > 1'\nname = 'f'\n[[pin]]\nwhere = 'b>1'\nposition=1\nname='f'",
            "'f'",
        ),
        ("[pin]\nwhere = 'x > 1'", "pin"),
        ("[[pins]]\nwhere = 'x > 1'", "pins"),
        ("where is it", "not a file of rules"),
    ],
)
def test_errors_name_the_file_the_entry_and_a_remedy(tmp_path, text, place):
    path = write(tmp_path, text)
    with pytest.raises(SchemaError, match=place) as error:
        Rules.load(path)
    assert error.value.file == str(path)
    assert error.value.parameter == "rules"
    assert error.value.fix


def test_a_missing_file_and_a_huge_one_are_errors(tmp_path):
    with pytest.raises(SchemaError) as error:
        read_rules(tmp_path / "none.toml")
    assert error.value.parameter == "rules"
    with pytest.raises(SchemaError):
        read_rules(write(tmp_path, "#" * (1 << 20) + "\n"))
    with pytest.raises(SchemaError):
        parse_rules({"pin": [3]})
