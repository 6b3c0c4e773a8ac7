import numpy as np
import pytest

from error_checks import raises_at
from rankine.core.errors import ModelFormatError
from rankine.model.foreign import is_foreign, read_foreign, read_sofia, read_svmrank

# The first weights of a model that sofia-ml wrote, and a model in SVMrank's form.
SOFIA = "-5.93489e-09 -0.18311 1.68312 0 0.0069816\n"
SVMRANK = """SVM-light Version V6.20
0 # kernel type
3 # kernel parameter -d 
1 # kernel parameter -g 
1 # kernel parameter -s 
1 # kernel parameter -r 
empty# kernel parameter -u 
5 # highest feature index 
12 # number of training documents 
3 # number of support vectors plus 1 
0 # threshold b, each following line is a SV (starting with alpha*y)
1 1:-0.036026154 3:-0.49825519 5:1e-3 #
-0.5 qid:7 1:2 4:.25 # a comment é
"""  # noqa: W291 - SVMrank writes these spaces


def write(tmp_path, text):
    path = tmp_path / "m.txt"
    path.write_bytes(text.encode())
    return path


def test_sofia_weights_without_the_bias(tmp_path):
    path = write(tmp_path, SOFIA)
    model = read_foreign(path)
    assert is_foreign(path)
    assert model.to_dense().tolist() == [-0.18311, 1.68312, 0.0, 0.0069816]
    assert model.provenance["bias_dropped"] == -5.93489e-09
    assert model.base == 1


@pytest.mark.parametrize("between", ["", "\n", "# nothing\n"])
def test_svmrank_support_vectors_add_up(tmp_path, between):
    path = write(tmp_path, SVMRANK.replace("-0.5 qid", f"{between}-0.5 qid"))
    model = read_foreign(path)
    assert is_foreign(path)
    assert model.n_features == 5
    np.testing.assert_array_equal(
        model.to_dense(), [-0.036026154 - 1.0, 0.0, -0.49825519, -0.125, 1e-3]
    )
    assert model.provenance["documents"] == 12


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0 # kernel type", "2 # kernel type", "not linear"),
        ("3 # number of support vectors", "9 # number of support vectors", "header declares 8"),
        ("5 # highest feature index", "x # highest feature index", "not a number"),
        ("5 # highest", "9999999999 # highest", "features"),
        ("5:1e-3", "6:1e-3", "bad feature"),
        ("5:1e-3", "0:1e-3", "bad feature"),
        ("5:1e-3", "5:nan", "not a number"),
        ("5:1e-3", "5:1e999", "not finite"),
        ("5:1e-3", "a:1", "bad feature"),
        ("12 # number of training documents \n", "", "missing"),
        ("SVM-light Version", "SVM-lite", "not an SVM"),
    ],
)
def test_damaged_svmrank_models_are_refused_with_the_line(tmp_path, old, new, message):
    assert old in SVMRANK
    with pytest.raises(ModelFormatError, match=message) as caught:
        read_svmrank(write(tmp_path, SVMRANK.replace(old, new)))
    assert str(caught.value.file).endswith("m.txt")
    changed = next(k for k, line in enumerate(SVMRANK.split("\n"), 1) if old.split("\n")[0] in line)
    whole = "support vectors" in old
    assert caught.value.line == (None if whole else changed)


def test_a_header_that_ends_is_told_by_the_line_that_is_missing(tmp_path):
    lines = SVMRANK.splitlines(keepends=True)
    for kept in range(11):
        with pytest.raises(ModelFormatError) as caught:
            read_svmrank(write(tmp_path, "".join(lines[:kept])))
        assert caught.value.line == kept + 1


def test_vectors_that_cancel_and_models_without_features(tmp_path):
    cancelled = SVMRANK.replace("1:2 4:.25", "1:-0.072052308 4:.25")
    assert read_svmrank(write(tmp_path, cancelled)).indices.tolist() == [2, 3, 4]
    nothing = SVMRANK.replace("5 # highest", "0 # highest")
    nothing = nothing.replace(" 1:-0.036026154 3:-0.49825519 5:1e-3", "").replace(" 1:2 4:.25", "")
    assert read_svmrank(write(tmp_path, nothing)).n_features == 0
    with raises_at(ModelFormatError, line=8) as caught:
        read_svmrank(write(tmp_path, SVMRANK.replace("5 # highest", "-1 # highest")))
    assert caught.value.line == 8


@pytest.mark.parametrize(
    "text", ["", "1 2 x", "1 nan", "1 2\n3 4\n", "1 0x10", "1 1_000", "1 é", "1 1e999"]
)
def test_damaged_sofia_models_are_refused(tmp_path, text):
    with pytest.raises(ModelFormatError) as caught:
        read_sofia(write(tmp_path, text))
    assert caught.value.line == 1
    if "é" in text:
        assert "not a text model" in str(caught.value)
    with pytest.raises(ModelFormatError) as caught:
        read_sofia(write(tmp_path, "\n1 x\n"))
    assert caught.value.line == 2


def test_data_and_own_models_are_not_foreign(tmp_path):
    from rankine.model import LinearModel

    LinearModel.from_weights([1.0]).save(tmp_path / "own")
    assert not is_foreign(tmp_path / "own")
    for other in ("2 qid:1 1:0.5\n", "hello world\n", ""):
        assert not is_foreign(write(tmp_path, other))
