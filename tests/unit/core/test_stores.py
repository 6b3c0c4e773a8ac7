"""Objects of stores: the bits of local files, whatever the network does."""

from __future__ import annotations

import collections
import itertools
import os
import pickle
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import rankine
from rankine import LinearModel, RankSVM, SPDRanker
from rankine.cli.main import app, find_commands
from rankine.core import stores
from rankine.core.atomic import atomic_file
from rankine.core.errors import (
    ChangedDataError,
    DataError,
    EmptyDataError,
    FileKindError,
    MissingExtraError,
    ModelFormatError,
    ParameterError,
)
from rankine.solvers.checkpoint import CheckpointFolder
from rankine.solvers.one_pass_run import OnePassRun
from reference.object_store import ENVIRONMENT, s3_server

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server():
    with s3_server() as (address, faults):
        yield address, faults


@pytest.fixture
def bucket(server, monkeypatch):
    """A new bucket as ``s3://name``, and the faults of its server."""
    from pyarrow import fs

    address, faults = server
    faults.reset()
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": address}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(stores, "FIRST_PAUSE", 0.001)
    name = f"bucket-{next(NUMBERS)}"
    fs.S3FileSystem(endpoint_override=address, allow_bucket_creation=True).create_dir(name)
    return f"s3://{name}", faults


def table(n_rows=6000, seed=0):
    rng = np.random.default_rng(seed)
    columns = {f"f{j}": rng.normal(size=n_rows) for j in range(6)}
    label = (columns["f0"] + rng.normal(size=n_rows) > 0.5).astype(np.int64)
    return pa.table({"label": label, "qid": np.arange(n_rows) // 10, **columns})


def put(url, content):
    with atomic_file(url) as file:
        file.write(content)


def put_table(url, rows, **options):
    with atomic_file(url) as file:
        pq.write_table(rows, file, **options)


def bits(ranker):
    return ranker.coef_.tobytes()


def test_training_gives_the_bits_of_local_files(bucket, tmp_path, monkeypatch):
    url, _ = bucket
    monkeypatch.setattr(stores, "BLOCK_BYTES", 2**14)
    local, remote = tmp_path / "log.parquet", f"{url}/a b/log.parquet"
    pq.write_table(table(), local, row_group_size=2000)
    put_table(remote, table(), row_group_size=2000)
    assert bits(RankSVM().fit(rankine.load(remote))) == bits(RankSVM().fit(rankine.load(local)))
    rankine.load(local).save(tmp_path / "log.txt.gz")
    put(f"{url}/log.txt.gz", (tmp_path / "log.txt.gz").read_bytes())
    read = {
        name: SPDRanker(n_steps=500, random_state=0).fit(rankine.scan(name)).coef_.tobytes()
        for name in (f"{url}/log.txt.gz", str(tmp_path / "log.txt.gz"))
    }
    assert len(set(read.values())) == 1


def test_folders_and_patterns_of_objects(bucket, tmp_path):
    url, _ = bucket
    whole = table()
    for k in range(3):
        put_table(f"{url}/log/date=2026-11-0{k + 1}/part-0.parquet", whole.slice(2000 * k, 2000))
    put(f"{url}/log/_SUCCESS", b"")
    pq.write_table(whole, tmp_path / "log.parquet")
    expected = rankine.load(tmp_path / "log.parquet")
    for pattern in (f"{url}/log", f"{url}/log/date=*", f"{url}/log/*/*.parquet"):
        data = rankine.load(pattern, features=expected.feature_names)
        assert data.X.tobytes() == expected.X.tobytes()
    assert data.sources[0] == f"{url}/log/date=2026-11-01/part-0.parquet"
    part = rankine.load(f"{url}/log", features=expected.feature_names, where="date >= 2026-11-03")
    assert part.n_rows == 2000


def test_a_hundred_dropped_connections_change_nothing(bucket, monkeypatch):
    url, faults = bucket
    monkeypatch.setattr(stores, "BLOCK_BYTES", 2**13)
    rows = table(20_000)
    put_table(f"{url}/log.parquet", rows, row_group_size=5000)
    content = stores.read_bytes(f"{url}/log.parquet")
    faults.drops = 100
    data = rankine.load(f"{url}/log.parquet")
    while faults.drops:
        assert stores.read_bytes(f"{url}/log.parquet") == content
    assert data.X.tobytes() == np.column_stack([rows[f"f{j}"] for j in range(6)]).tobytes()


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        ("403 Forbidden", "AccessDenied", "denied"),
        ("403 Forbidden", "SignatureDoesNotMatch", "denied"),
        ("400 Bad Request", "ExpiredToken", "refused"),
    ],
)
def test_refused_requests_say_what_to_do(bucket, status, code, reason):
    url, faults = bucket
    put_table(f"{url}/log.parquet", table(100))
    faults.status, faults.code = status, code
    for path in (f"{url}/log.parquet", f"{url}/*.parquet"):
        n_requests = len(faults.requests)
        with pytest.raises(DataError) as caught:
            rankine.load(path)
        assert caught.value.file.startswith(url)
        assert reason in caught.value.reason or "expired" in caught.value.reason
        assert "AWS_" in caught.value.fix
        assert len(faults.requests) - n_requests < 4  # not repeated


def change(url, _):
    put_table(f"{url}/log/date=2026-11-02/a.parquet", table(300_000, 1), row_group_size=50_000)


def refuse(status, code):
    def apply(_, faults):
        faults.status, faults.code = status, code

    return apply


@pytest.mark.parametrize(
    "fault",
    [
        refuse("403 Forbidden", "AccessDenied"),
        refuse("400 Bad Request", "ExpiredToken"),
        refuse("404 Not Found", "NoSuchKey"),
        change,
    ],
)
def test_faults_in_the_middle_of_a_training_leave_no_model(bucket, monkeypatch, tmp_path, fault):
    url, faults = bucket
    find_commands()
    paths = [f"{url}/log/date=2026-11-0{k}/a.parquet" for k in (1, 2)]
    for path in paths:
        put_table(path, table(300_000), row_group_size=50_000)
    happened = []

    def learn(self, *arguments, **options):
        if not happened:
            happened.append(fault(url, faults))
        return learn_block(self, *arguments, **options)

    learn_block = OnePassRun.learn_block
    monkeypatch.setattr(OnePassRun, "learn_block", learn)
    for out in (f"{url}/m.rankine", str(tmp_path / "m.rankine")):
        happened.clear()
        arguments = ["train", f"{url}/log", "--ranker", "elastic", "--stream", "--out", out]
        error = CliRunner().invoke(app, arguments).exception
        assert happened
        assert isinstance(error, DataError)
        assert error.file in paths
        assert error.reason
        assert error.fix
        faults.reset()
        assert not stores.is_file(out)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["none", "half", "empty", "types"])
def test_faulty_data_leaves_no_model(bucket, tmp_path, name):
    url, _ = bucket
    find_commands()
    put(f"{url}/empty/_SUCCESS", b"")
    pq.write_table(table(), tmp_path / "log.parquet")
    content = (tmp_path / "log.parquet").read_bytes()
    put(f"{url}/half/a.parquet", content[: len(content) // 2])
    rows = table()
    put_table(f"{url}/types/date=2026-11-01/a.parquet", rows)
    texts = rows.set_column(2, "f0", rows["f0"].cast(pa.string()))
    put_table(f"{url}/types/date=2026-11-02/a.parquet", texts)
    arguments = ["train", f"{url}/{name}", "--ranker", "ranksvm", "--out", f"{url}/m.rankine"]
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, DataError)
    assert error.file.startswith(f"{url}/{name}")
    assert error.reason
    assert error.fix
    assert not stores.is_file(f"{url}/m.rankine")


def test_a_store_that_fails_is_tried_again_and_then_named(bucket, monkeypatch):
    url, faults = bucket
    monkeypatch.setattr(stores, "N_ATTEMPTS", 2)
    put_table(f"{url}/log.parquet", table(100))
    faults.status, faults.code = "409 Conflict", "OperationAborted"
    with pytest.raises(DataError) as caught:
        rankine.load(f"{url}/log.parquet")
    assert caught.value.file == f"{url}/log.parquet"
    assert "2 attempts" in caught.value.reason


def test_missing_objects_buckets_and_folders(bucket):
    url, _ = bucket
    put(f"{url}/empty/_SUCCESS", b"")
    for path in (f"{url}/none.parquet", "s3://no-such-bucket/x.parquet", f"{url}/*.parquet"):
        with pytest.raises(DataError) as caught:
            rankine.load(path)
        assert caught.value.file == path
    with pytest.raises(EmptyDataError):
        rankine.load(f"{url}/empty")
    with pytest.raises(FileNotFoundError):
        LinearModel.load(f"{url}/none.rankine")


def test_half_written_files_are_named(bucket, tmp_path):
    url, _ = bucket
    pq.write_table(table(), tmp_path / "log.parquet")
    content = (tmp_path / "log.parquet").read_bytes()
    put(f"{url}/log.parquet", content[: len(content) // 2])
    with pytest.raises(FileKindError) as caught:
        rankine.load(f"{url}/log.parquet")
    assert caught.value.file == f"{url}/log.parquet"


def test_an_object_that_changes_between_passes_or_while_it_is_read(bucket):
    url, _ = bucket
    for read_on in (False, True):
        put_table(f"{url}/log.parquet", table(300_000), row_group_size=50_000)
        stream = rankine.scan(f"{url}/log.parquet")
        if not read_on:
            put_table(f"{url}/log.parquet", table(300_000, seed=1), row_group_size=50_000)
        with pytest.raises(ChangedDataError) as caught:
            for k, _ in enumerate(stream):
                if k == 0 and read_on:
                    put_table(f"{url}/log.parquet", table(300_000, seed=1), row_group_size=50_000)
        assert caught.value.file == f"{url}/log.parquet"


def test_models_and_results_are_written_whole_or_not_at_all(bucket, tmp_path, monkeypatch):
    url, faults = bucket
    find_commands()
    put_table(f"{url}/log.parquet", table())
    model, scores = f"{url}/models/m.rankine", f"{url}/scores.parquet"
    run = CliRunner()
    arguments = ["train", f"{url}/log.parquet", "--ranker", "ranksvm", "--out", model]
    assert run.invoke(app, arguments).exit_code == 0
    assert run.invoke(app, ["predict", model, f"{url}/log.parquet", "--out", scores]).exit_code == 0
    assert LinearModel.load(model).n_features == 6
    n_rows = pq.read_metadata(pa.BufferReader(stores.read_bytes(scores))).num_rows
    assert n_rows == 6000
    # A failed upload, small or in parts, leaves what was there.
    monkeypatch.setattr(stores, "N_ATTEMPTS", 1)
    for size in (1000, 12 * 2**20):
        put(f"{url}/old", b"old")
        faults.status, faults.code = "409 Conflict", "OperationAborted"
        faults.refuses = lambda method, path: method == "PUT"
        with pytest.raises(DataError) as caught:
            put(f"{url}/old", os.urandom(size))
        assert caught.value.file == f"{url}/old"
        faults.reset()
        assert stores.read_bytes(f"{url}/old") == b"old"
    with pytest.raises(ZeroDivisionError), atomic_file(f"{url}/old") as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert stores.read_bytes(f"{url}/old") == b"old"
    with pytest.raises(ModelFormatError):
        LinearModel.load(f"{url}/old")


def test_a_run_resumes_from_checkpoints_in_a_store(bucket, tmp_path):
    url, _ = bucket
    pq.write_table(table(), tmp_path / "log.parquet")
    data = rankine.load(tmp_path / "log.parquet")

    class Stop(Exception):  # noqa: N818
        pass

    def stop(progress):
        if progress.step >= 3000:
            raise Stop

    def ranker():
        return SPDRanker(n_steps=4000, random_state=0)

    folder = f"{url}/checkpoints"
    with pytest.raises(Stop):
        ranker().fit(data, checkpoint=folder, every=1000, callbacks=[stop])
    saved = CheckpointFolder(folder, 1).paths()
    assert 0 < len(saved) <= 2
    resumed = ranker().fit(data, checkpoint=folder, every=1000, resume=True)
    assert bits(resumed) == bits(ranker().fit(data))


def test_an_output_bucket_is_checked_before_training(bucket):
    url, _ = bucket
    find_commands()
    put_table(f"{url}/log.parquet", table(100))
    arguments = ["train", f"{url}/log.parquet", "--out", "s3://no-such-bucket/m.rankine"]
    assert isinstance(CliRunner().invoke(app, arguments).exception, DataError)


def test_stores_can_be_sent_to_workers(bucket):
    url, _ = bucket
    put(f"{url}/x", b"content")
    store, path = pickle.loads(pickle.dumps(stores.open_store(f"{url}/x")))  # noqa: S301
    assert store.read(path) == b"content"


@pytest.fixture
def memory():
    fsspec = pytest.importorskip("fsspec")
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.store.clear()


def test_other_schemes_are_read_with_fsspec(memory, tmp_path):
    put_table("memory://shop/log/date=2026-11-01/a.parquet", table())
    pq.write_table(table(), tmp_path / "log.parquet")
    expected = rankine.load(tmp_path / "log.parquet")
    for path in ("memory://shop/log", "memory://shop/log/*/*.parquet"):
        data = rankine.load(path, features=expected.feature_names)
        assert data.X.tobytes() == expected.X.tobytes()
        assert data.sources == ("memory://shop/log/date=2026-11-01/a.parquet",)
    RankSVM().fit(expected).to_model().save("memory://shop/m.rankine")
    assert LinearModel.load("memory://shop/m.rankine").n_features == 6


def test_reads_that_fail_are_repeated(memory, monkeypatch):
    monkeypatch.setattr(stores, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(stores, "BLOCK_BYTES", 1000)
    content = os.urandom(50_500)
    put("memory://shop/x", content)
    attempts = collections.Counter()
    read = type(memory).cat_file

    def flaky(self, path, start=None, end=None, **more):
        attempts[start] += 1  # of one block; blocks are read by several threads
        if attempts[start] == 1:
            raise ConnectionResetError
        data = read(self, path, start, end, **more)
        return data[:-1] if attempts[start] == 2 else data  # a body that was cut

    monkeypatch.setattr(type(memory), "cat_file", flaky)
    assert stores.read_bytes("memory://shop/x") == content
    assert min(attempts.values()) == 3


def test_pauses_between_attempts_double_up_to_the_longest(memory, monkeypatch):
    pauses = []
    monkeypatch.setattr(stores.time, "sleep", pauses.append)
    monkeypatch.setattr(stores, "LONGEST_PAUSE", 0.5)

    def fail(*_, **__):
        raise ConnectionResetError

    put("memory://shop/x", b"content")
    monkeypatch.setattr(type(memory), "cat_file", fail)
    with pytest.raises(DataError):
        stores.read_bytes("memory://shop/x")
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.5]
    assert set(pauses[3:]) == {0.5}
    assert len(pauses) == stores.N_ATTEMPTS - 1


def test_reads_at_any_place_give_the_bytes_there(memory, monkeypatch):
    monkeypatch.setattr(stores, "BLOCK_BYTES", 100)
    monkeypatch.setattr(stores, "N_KEPT", 5)
    monkeypatch.setattr(stores, "N_AHEAD", 3)
    content = os.urandom(2345)
    put("memory://shop/x", content)
    store, path = stores.open_store("memory://shop/x")
    rng = np.random.default_rng(0)
    with store.open(path, sequential=False) as file:
        for start, size in zip(rng.integers(0, 2400, 300), rng.integers(0, 500, 300), strict=True):
            file.seek(start)
            assert file.read(int(size)) == content[start : start + size]
        assert file.seek(-5, os.SEEK_END) == 2340
        assert file.read() == content[-5:]
        assert file.read(1) == b""


def count_requests(memory, monkeypatch):
    """Return a counter of the first bytes of ranges that are read."""
    starts = collections.Counter()
    read = type(memory).cat_file

    def counted(self, path, start=None, end=None, **more):
        starts[start] += 1
        return read(self, path, start, end, **more)

    monkeypatch.setattr(type(memory), "cat_file", counted)
    return starts


def test_every_block_is_requested_once(memory, monkeypatch):
    monkeypatch.setattr(stores, "BLOCK_BYTES", 1000)
    content = os.urandom(200_500)
    put("memory://shop/x", content)
    starts = count_requests(memory, monkeypatch)
    with stores.open_binary("memory://shop/x") as file:
        parts = iter(lambda: file.read(700), b"")
        assert b"".join(parts) == content
    assert set(starts.values()) == {1}
    assert len(starts) == 201


@pytest.mark.parametrize("group_rows", [2000, 40_000])
def test_only_the_columns_that_are_read_are_requested(memory, monkeypatch, group_rows):
    monkeypatch.setattr(stores, "BLOCK_BYTES", 4096)
    url = "memory://shop/log.parquet"
    put_table(url, table(40_000), row_group_size=group_rows, use_dictionary=False)
    size = len(stores.read_bytes(url))
    starts = count_requests(memory, monkeypatch)
    rankine.load(url)
    assert sum(starts.values()) <= 1.1 * size / 4096  # also where a row group has many blocks
    starts.clear()
    rankine.load(url, features=["f3"])
    n_groups = 40_000 // group_rows
    columns_bytes = size * 3 / 8
    assert sum(starts.values()) <= columns_bytes / 4096 + 4 * n_groups + 5


def test_urls_that_nothing_opens(monkeypatch):
    with pytest.raises((DataError, MissingExtraError)):
        rankine.load("nosuchscheme://x/y.parquet")
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(MissingExtraError):
        rankine.load("https://example.org/x.parquet")
    with pytest.raises(ParameterError):
        stores.local_path("s3://bucket/study.db", "study")


class _Pages(BaseHTTPRequestHandler):
    """A web server that may or may not serve ranges."""

    content = b""
    ranges = True

    def do_GET(self):
        start, stop = 0, len(self.content)
        status = 200
        if self.path.startswith("/absent"):
            self.send_error(404)
            return
        if self.path.startswith("/denied"):
            self.send_error(403)
            return
        if self.ranges and "Range" in self.headers:
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            start, stop, status = int(first), min(int(last) + 1, stop), 206
        self.send_response(status)
        if self.ranges:
            self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(stop - start))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(self.content[start:stop])

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("ranges", [True, False])
def test_files_of_web_servers(ranges, tmp_path, monkeypatch):
    pytest.importorskip("aiohttp", reason="needs aiohttp")
    pq.write_table(table(), tmp_path / "log.parquet")
    _Pages.content, _Pages.ranges = (tmp_path / "log.parquet").read_bytes(), ranges
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/log.parquet?version=1"
        data = rankine.load(url)
    finally:
        server.shutdown()
        server.server_close()
    assert data.X.tobytes() == rankine.load(tmp_path / "log.parquet").X.tobytes()


def test_secrets_of_a_url_are_in_no_error_and_no_model(tmp_path, monkeypatch):
    pytest.importorskip("aiohttp", reason="needs aiohttp")
    data = rankine.Dataset.from_arrays(np.eye(4), [1, 0, 0, 1], [1, 1, 2, 2])
    data.save(tmp_path / "log.txt")
    monkeypatch.setattr(_Pages, "content", (tmp_path / "log.txt").read_bytes())
    monkeypatch.setattr(stores, "FIRST_PAUSE", 0.001)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        data = rankine.load(f"{address}/log.txt?token=s3cr3t")
        model = RankSVM().fit(data).to_model()
        texts = []
        for path in ("absent", "denied"):
            for read in (rankine.load, LinearModel.load):
                with pytest.raises((DataError, FileNotFoundError)) as caught:
                    read(f"{address}/{path}.rankine?token=s3cr3t")
                texts.append("".join(traceback.format_exception(caught.value)))
    finally:
        server.shutdown()
        server.server_close()
    assert model.provenance["training"]["sources"] == [f"{address}/log.txt?token=***"]
    lines = "".join(texts).splitlines()
    # The lines of code in a traceback are the caller's own.
    assert [line for line in lines if "s3cr3t" in line and "read(f" not in line] == []
    assert "token=***" in "".join(lines)
