from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import sparse

from rankine.data import Dataset


class Elements(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text = set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data):
        self.text += data


KNOWN = {"table", "caption", "tbody", "tr", "th", "td", "br", "span"}


def test_it_shows_sizes_labels_and_lengths():
    data = Dataset.from_arrays(
        np.eye(6), [0, 0, 1, 1, 1, 2], [1, 1, 1, 1, 2, 2], docid=list("abcdef")
    )
    shown = Elements(data._repr_html_())
    assert shown.tags == KNOWN
    for text in ("rows6", "queries2", "6 (dense, float64)", "0: 2", "1: 3", "2 to 4, median 3"):
        assert text in shown.text


def test_many_labels_become_a_histogram():
    data = Dataset.from_arrays(sparse.eye(40, format="csr"), np.linspace(0, 1, 40))
    shown = Elements(data._repr_html_()).text
    assert "0 to 0.1: 4" in shown
    assert "sparse, 1.0 non-zeros a row" in shown


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        "</td></table><img src=x onerror=a()>",
        '"><svg/onload=a()>',
        "&lt;b&gt;",
        "\x1b[31mred",
        "a" * 500,
        "'; x='",
        "<!--",
        "\u202eevil",
    ],
)
def test_hostile_names_are_inert(name):
    data = Dataset.from_arrays(
        np.eye(2), [0, 1], feature_names=[name, "ok"], columns={name: [1, 2]}
    )
    page = data._repr_html_()
    shown = Elements(page)
    assert shown.tags == KNOWN | {"bdi"}
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert len(page) < 3000


def test_no_rows():
    empty = Dataset.from_arrays(np.zeros((0, 3)), [])
    assert "rows0" in Elements(empty._repr_html_()).text


def test_labels_up_to_ten_are_shown_one_by_one():
    def lines(levels):
        y = np.repeat(np.arange(levels), np.arange(levels) + 1)
        page = Dataset.from_arrays(np.zeros((len(y), 1)), y)._repr_html_()
        widths = [int(part.split("px")[0]) for part in page.split("width:")[1:]]
        return page, Elements(page).text, widths

    page, text, widths = lines(10)
    assert "9: 10" in text
    assert "to" not in text.partition("labels")[2]
    assert widths == [12 * (k + 1) for k in range(10)]
    assert page.count("<br") == 9
    assert page.index("0: 1 ") < page.index("<br")
    _, text, widths = lines(11)
    assert "0 to 1: 1" in text
    assert (len(widths), max(widths)) == (10, 120)


def test_what_there_is_besides_is_told():
    plain = Dataset.from_arrays(sparse.csr_matrix((0, 3)), [])
    assert "sparse, 0.0 non-zeros a row" in Elements(plain._repr_html_()).text
    one = Dataset.from_arrays(sparse.csr_matrix(np.ones((1, 3))), [1])
    assert "sparse, 3.0 non-zeros a row" in Elements(one._repr_html_()).text
    uneven = Dataset.from_arrays(np.zeros((1002, 1)), np.zeros(1002), group=[1, 1001])
    assert "1 to 1,001, median 501" in Elements(uneven._repr_html_()).text
    full = replace(
        Dataset.from_arrays(np.eye(2), [0, 1], weight=[1, 2], position=[1, 2]),
        sources=("a.txt",), read_counts={"skipped_rows": 1234},
    )  # fmt: skip
    text = Elements(full._repr_html_()).text
    for told in ("weightgiven", "positiongiven", "filesa.txt", "skipped_rows1,234"):
        assert told in text
    assert "docid" not in text
    assert "further columns" not in text
