"""Names from outside are shown escaped and with bounded length."""

from __future__ import annotations

import pytest

from rankine.core import safe_text
from rankine.core.safe_text import (
    Html,
    html_table,
    join,
    listed,
    mask_secrets,
    name_of,
    printable,
    small_bar,
    tag,
    text,
)


@pytest.mark.parametrize("show", [printable, text], ids=["terminal", "page"])
def test_names_are_cut_at_the_limit(show):
    assert show("x" * 30, 30) == "x" * 30
    assert show("x" * 31, 30) == "x" * 29 + "…"
    assert show("x" * safe_text.MAX_TEXT) == "x" * safe_text.MAX_TEXT
    assert len(show("x" * 500)) == safe_text.MAX_TEXT


def test_long_lists_of_names_end_with_the_number_of_omitted_ones():
    def without_isolation(*args, **options):
        return str(listed(*args, **options)).replace("<bdi>", "").replace("</bdi>", "")

    assert without_isolation("abc", 3) == "a, b, c"
    assert without_isolation("abcde", 3) == "a, b, c and 2 more"
    assert without_isolation("abc", 3, total=1003) == "a, b, c and 1,000 more"
    assert without_isolation("ab", 3, total=2) == "a, b"


def test_bars_of_notebook_tables_are_between_1_and_120_pixels_wide():
    assert "width:60px" in small_bar(0.5)
    assert "width:120px" in small_bar(1.0)
    assert "width:1px" in small_bar(0.0)


def test_notebook_tables_escape_text_and_keep_html():
    table = html_table("<all>", [("a", 1), ("b", tag("i", "x"))])
    assert table.count("<tr>") == 2
    assert "&lt;all&gt;" in table
    assert ">1</td>" in table
    assert "<i>x</i></td>" in table


def test_attributes_that_are_false_or_none_are_omitted():
    assert tag("details", open=False, hidden=True, id=None, data_of=0) == (
        '<details hidden data-of="0"></details>'
    )


def test_elements_escape_what_is_not_html():
    assert tag("p", "<b>", tag("i", "x"), None, ["a", 1]) == "<p>&lt;b&gt;<i>x</i>a1</p>"
    assert tag("p", class_='a"b', aria_label="x", hidden=True, id=None) == (
        '<p class="a&quot;b" aria-label="x" hidden></p>'
    )
    assert join([Html("<b>"), "<b>"]) == "<b>&lt;b&gt;"
    assert text("a" * 300, 10) == "a" * 9 + "…"
    assert text("\u202e\x00") == "\\u202e\\x00"
    assert text("1\N{NO-BREAK SPACE}%") == "1\N{NO-BREAK SPACE}%"
    assert name_of("<x>") == "<bdi>&lt;x&gt;</bdi>"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("https://me:se/cr.et@host/a?v=2", "https://***@host/a?v=2"),
        ("s3://KEYID:a+b/c=@bucket/log", "s3://***@bucket/log"),
        ("HTTPS://abc123@host/a", "HTTPS://***@host/a"),
        ("https://h/a?sig=a%2Fb&v=1&X-Amz-Token=x: gone",
         "https://h/a?sig=***&v=1&X-Amz-Token=***: gone"),
        ("Max retries with url: /a?access_token=abc, (try later)",
         "Max retries with url: /a?access_token=***, (try later)"),
        ("'https://h/a?password=x' and \"ftp://u:p@h/b\"",
         "'https://h/a?password=***' and \"ftp://***@h/b\""),
    ],
)  # fmt: skip
def test_secrets_of_urls_are_masked(text, masked):
    assert mask_secrets(text) == masked
    assert mask_secrets(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "abfs://container@account.dfs.core.windows.net/log.parquet",
        "https://host:8080/users/a@b.txt?page=2",
        "http://[::1]:80/a@b",
        "s3://bucket/key=value/part.parquet",
        "key = 3 of log.parquet",
    ],
)
def test_texts_without_secrets_stay(text):
    assert mask_secrets(text) == text
