# ruff: noqa: E501 - a table
"""List the faults that rankine handles, what it does about each, and the tests of it.

A test is named by its file and function, or as ``trial:KIND`` of the harness.
"""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """A fault, what rankine does about it, and the tests that check it."""

    fault: str
    behaviour: str
    tests: tuple[str, ...]


_CORPUS = "tests/unit/data/readers/test_letor_errors.py::test_corpus_is_refused_with_its_place"
_DATA = "tests/unit/data"
_SERVE = "tests/integration/serve"

FAULTS: dict[str, list[Fault]] = {
    "Text and file input": [
        Fault("infinity or 1e400 as a feature", "an error with its location",
              (_CORPUS, f"{_DATA}/readers/test_columns.py::test_nan_is_a_missing_value_and_infinity_is_not")),
        Fault("NaN, NULL or null as a feature",
              "a missing value: training refuses it unless `missing` names a rule",
              ("tests/unit/transforms/test_missing.py::test_missing_values_are_refused_by_default",)),
        Fault("a label that is not a finite number", "an error with its location", (_CORPUS,)),
        Fault("a negative label", "an error with exponential gains, allowed with pairs",
              ("tests/contracts/test_label_domains.py::test_a_metric_accepts_the_labels_of_its_domain_only",)),
        Fault("a fractional label", "allowed with linear gains and pairs, otherwise an error",
              ("tests/contracts/test_label_domains.py::test_a_metric_accepts_the_labels_of_its_domain_only",
               "tests/unit/metrics/test_gains.py::test_linear_gain_takes_real_labels_and_refuses_negative_ones")),
        Fault("a label whose exponential gain overflows", "an error; gains are always finite",
              ("tests/unit/metrics/test_gains.py::test_exponential_gains_stay_finite",
               "tests/contracts/test_label_domains.py::test_a_listwise_objective_with_exponential_gain_rejects_huge_labels")),
        Fault("a file that is empty or holds only comments", "`EmptyDataError`", (_CORPUS, "trial:text")),
        Fault("a query with one document, one label or no relevant document",
              "left out of the loss and counted; metrics follow a documented convention",
              ("trial:numbers",
               "tests/unit/metrics/test_engine.py::test_value_of_a_query_without_relevant_documents")),
        Fault("a query that appears again later in a stream", "an error with its line that suggests `rankine sort`",
              ("trial:text", f"{_DATA}/test_scan.py::test_the_error_names_the_line_and_the_way_out")),
        Fault("descending query ids", "allowed: the rows of a query only have to be adjacent", ("trial:text",)),
        Fault("a row without a query id", "an error at the first such line", (_CORPUS,)),
        Fault("query ids that are text, fractions or beyond 64 bits",
              'exact 64-bit integers, or text with `qid_type="str"`; otherwise an error',
              (_CORPUS, f"{_DATA}/readers/test_columns.py::test_query_ids_at_the_edges")),
        Fault("feature indices that start at 0 or at 1", "declared by the user and stored in the model, never guessed",
              (_CORPUS, f"{_DATA}/readers/test_columns.py::test_base_is_declared")),
        Fault("an index beyond 2^31", "read exactly or refused; memory does not grow with an index", (_CORPUS, "trial:text")),
        Fault("more than 2^31 stored values", "64-bit offsets everywhere",
              ("tests/unit/kernels/test_products.py::test_products_have_the_same_bits_for_any_number_of_threads",
               "tests/unit/losses/test_active_pairs.py::test_counts_of_a_long_query_do_not_overflow")),
        Fault("the same index twice in a row", "an error", (_CORPUS, "trial:text")),
        Fault("indices that are not sorted", "sorted within the row, with the same result",
              (f"{_DATA}/readers/test_letor.py::test_unsorted_rows_are_sorted", "trial:text")),
        Fault("`1:`, `1:2:3`, `0.1x`, `0x1p3`, `1_000`, `0,1`",
              "one strict decimal grammar; values are exactly those of Python's `float`",
              (_CORPUS, "trial:text", "tests/unit/kernels/test_numbers.py::test_labels_equal_float")),
        Fault("CRLF, lone CR, tabs, blank lines, any chunk boundary",
              "LF and CRLF are read, a lone CR is an error that names it", (_CORPUS, "trial:text")),
        Fault("a file cut in the middle of a line", "the last line must be complete; a missing newline is reported",
              (f"{_DATA}/readers/test_letor.py::test_every_prefix_agrees_with_the_slow_reader",)),
        Fault("truncated or damaged compressed data", "an error; no model is trained on the rows before it",
              ("trial:compressed", f"{_DATA}/test_compression.py::test_every_truncation_is_refused")),
        Fault("a file of another format", "an error that names the format",
              (f"{_DATA}/test_compression.py::test_the_kind_is_named",)),
        Fault("bad UTF-8 and NUL bytes", "refused in values, escaped when shown from comments",
              (_CORPUS, "trial:text")),
        Fault("an extremely long line", "`max_line_bytes`, checked before the line is in memory",
              (f"{_DATA}/readers/test_letor.py::test_a_line_without_end_is_refused_before_it_is_buffered",)),
        Fault("a compression bomb", "limits on the compression ratio and on memory",
              ("tests/reliability/test_bombs.py::test_bombs_are_refused_in_little_memory",
               f"{_DATA}/test_compression.py::test_a_compression_bomb_is_stopped")),
        Fault("damaged Parquet or Arrow",
              "footers, pages and values are checked; queries may span row groups",
              ("trial:tables", f"{_DATA}/readers/test_parquet_guard.py::test_every_cut_is_refused")),
        Fault("a file that changes while it is read", "`ChangedDataError`; checkpoints remain",
              (f"{_DATA}/test_scan.py::test_a_file_that_changes_between_passes",)),
    ],
    "Numbers": [
        Fault("constant, empty or huge features", "finite weights",
              ("tests/unit/rankers/test_spd.py::test_huge_and_constant_features_stay_finite",
               "tests/unit/rankers/test_spd.py::test_a_huge_column_is_learnt_from_in_memory_streams_and_partitions",
               "tests/unit/rankers/test_domination.py::test_constant_features_get_no_weight")),
        Fault("training that diverges", "`DivergenceError` that names the last good checkpoint; NaN is never saved",
              ("tests/unit/rankers/test_elastic.py::test_divergence_names_the_last_good_checkpoint",
               "tests/unit/model/test_linear.py::test_weights_that_are_not_finite_are_refused")),
        Fault("other threads, chunk sizes, formats or partitions", "the same model, bit for bit",
              ("trial:determinism",
               "tests/contracts/test_thread_digests.py::test_models_of_any_number_of_threads_have_one_digest")),
        Fault("no memory left", "an error or the right result, no crash and no damaged file",
              ("trial:memory",)),
    ],
    "Files that rankine writes": [
        Fault("a full disk or an I/O error during a save", "the old file is unchanged; no temporary file remains", ("trial:io-faults",)),
        Fault("kill -9 or a power cut during a save", "the file is the old version or the new one",
              ("trial:save-kills", "trial:io-faults")),
        Fault("kill -9 during training", "the resumed run gives the same model as an uninterrupted one",
              ("trial:train-kills", "trial:checkpoints")),
        Fault("kill -9 during tuning", "no finished trial is lost, no trial stays in state RUNNING", ("trial:tune-kills",)),
        Fault("a study resumed with other data or another search space", "an error that names the difference",
              ("tests/unit/tuning/test_study.py::test_a_study_refuses_to_continue_on_something_else",)),
    ],
    "Model files": [
        Fault("a damaged model", "an error: a SHA-256 digest covers every byte", ("trial:models",)),
        Fault("a malicious model with a correct digest", "every length, index and number is checked; no code is executed",
              ("trial:hostile-models",
               "tests/reliability/test_model_memory.py::test_memory_follows_the_file_and_not_its_numbers")),
        Fault("an older or newer format", "older ones load with the same weights, newer ones give an error that names the version",
              ("tests/unit/model/test_golden.py::test_linear_format_1",
               "tests/unit/model/test_store.py::test_a_newer_format_is_refused_by_name")),
        Fault("rows whose features are not the model's", "an error when loading and for every request",
              ("tests/reliability/test_feature_mismatch.py::test_two_hundred_mismatches_are_all_caught",)),
    ],
    "Serving": [
        Fault("a model replaced under load, or by a damaged file",
              "no request fails, no reply mixes two models; a damaged file changes nothing",
              ("trial:reloads", f"{_SERVE}/test_reload.py::test_a_bad_file_changes_nothing_and_is_reported")),
        Fault("concurrent reloads, renames, partial copies", "a partly copied file is never served",
              (f"{_SERVE}/test_reload.py::test_racing_operations_never_serve_anything_wrong", "trial:serve-kills")),
        Fault("slow clients", "closed at their deadline; other clients do not wait", ("trial:slow-clients",)),
        Fault("large, deep or hostile JSON", "4xx, never 5xx; memory does not grow",
              ("trial:http", f"{_SERVE}/test_limits.py::test_sizes")),
        Fault("smuggled requests, bad framing, floods of headers", "4xx or a closed connection",
              ("trial:http", "tests/unit/serve/test_connection.py::test_doubtful_requests_are_refused")),
        Fault("overload and SIGTERM", "503 with Retry-After; requests that have arrived are answered before the exit",
              (f"{_SERVE}/test_limits.py::test_a_full_queue_says_when_to_come_back",
               f"{_SERVE}/test_limits.py::test_stopping_answers_what_has_arrived")),
    ],
    "Clusters, commands, reports": [
        Fault("a worker killed", "training continues and gives the same model",
              ("trial:worker-kills", "tests/unit/distributed/test_cluster.py::test_killed_workers_do_not_change_the_model")),
        Fault("the driver or the scheduler killed, or no progress",
              "an error in time; resuming from the checkpoint gives the same model",
              ("trial:train-kills",
               "tests/unit/distributed/test_cluster.py::test_a_killed_scheduler_is_an_error_and_the_run_resumes",
               "tests/unit/distributed/test_cluster.py::test_no_progress_is_an_error_in_time")),
        Fault("markup, escapes or formulas in names", "escaped in HTML, terminals and exports",
              ("tests/contracts/test_exports.py::test_hostile_names_are_escaped",
               f"{_DATA}/test_html.py::test_hostile_names_are_inert")),
    ],
}  # fmt: skip
