"""Errors carry what is wrong, where, and what to do; also after pickling."""

from __future__ import annotations

import pickle

import pytest

from rankine.core.errors import (
    DataError,
    ModelFormatError,
    ParameterError,
    RankineError,
    attach_file_to_errors,
)


def test_the_message_has_location_reason_code_and_fix():
    error = DataError("bad row", fix="Mend it", file="a.txt", line=3, column="price")
    assert str(error) == "a.txt:3:price: bad row [data]. Mend it"
    assert str(DataError("bad row")) == "bad row [data]"
    assert str(DataError("bad row", line=1)) == "1: bad row [data]"


def test_the_message_starts_with_the_parameter():
    error = ParameterError("0 is not positive", parameter="n_passes", fix="Pass 1")
    assert str(error) == "n_passes: 0 is not positive [parameter]. Pass 1"
    assert str(DataError("x is text", row=0)) == "row 0: x is text [data]"
    error = ParameterError("unknown column", parameter="columns", file="a.csv")
    assert str(error) == "a.csv: columns: unknown column [parameter]"


def test_a_default_fix_is_used_where_the_error_has_none():
    assert ModelFormatError("cut").fix == ModelFormatError.default_fix
    assert ModelFormatError("cut", fix="Wait").fix == "Wait"


@pytest.mark.parametrize(
    "error",
    [
        DataError("bad row", fix="Mend it", file="a.txt", line=3, column="price"),
        DataError("x"),
        ModelFormatError("y", column=0),
        DataError("x is text", row=0),
        ParameterError("0 is not positive", parameter="n_passes"),
    ],
    ids=str,
)
def test_errors_keep_every_field_when_pickled(error):
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert str(again) == str(error)


@pytest.mark.parametrize(("file", "expected"), [(None, "outer"), ("inner", "inner")])
def test_a_file_is_attached_to_errors_that_name_none(file, expected):
    with pytest.raises(RankineError) as caught, attach_file_to_errors("outer"):
        raise DataError("bad", file=file)
    assert caught.value.file == expected


def test_secrets_of_urls_are_in_no_field():
    error = DataError("no https://h/a?token=abc", fix="See s3://me:abc@b/c", file="http://abc@h/d")
    assert error.file == "http://***@h/d"
    with pytest.raises(DataError) as caught, attach_file_to_errors("https://h/x?sig=abc"):
        raise DataError("bad")
    assert caught.value.file == "https://h/x?sig=***"
    for each in (error, pickle.loads(pickle.dumps(error)), caught.value):  # noqa: S301
        assert "abc" not in f"{each} {vars(each)} {each!r}"
