# ruff: noqa: E501 - a table
"""The faults that rankine makes promises about, and the tests that hold it to them.

A test is named by its file and function, or as ``trial:KIND`` of the harness.
"""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """What may happen, what rankine then does, and what proves it."""

    fault: str
    promise: str
    tests: tuple[str, ...]


_CORPUS = "tests/unit/data/readers/test_letor_errors.py::test_corpus_is_refused_with_its_place"
_DATA = "tests/unit/data"
_SERVE = "tests/integration/serve"

FAULTS: dict[str, list[Fault]] = {
    "Text and file input": [
        Fault("infinity or 1e400 as a feature", "refused where it stands",
              (_CORPUS, f"{_DATA}/readers/test_columns.py::test_nan_is_a_missing_value_and_infinity_is_not")),
        Fault("NaN, NULL or null as a feature",
              "a missing value: refused by training unless `missing` says what stands for it",
              ("tests/unit/transforms/test_missing.py::test_missing_values_are_refused_by_default",)),
        Fault("a label that is no finite number", "refused where it stands", (_CORPUS,)),
        Fault("a negative label", "an error where gains are exponential, allowed for pairs",
              ("tests/contracts/test_label_domains.py::test_a_metric_accepts_the_labels_of_its_domain_only",)),
        Fault("a fractional label", "taken by linear gains and pairs, an error elsewhere",
              ("tests/contracts/test_label_domains.py::test_a_metric_accepts_the_labels_of_its_domain_only",
               "tests/unit/metrics/test_gains.py::test_linear_gain_takes_real_labels_and_refuses_negative_ones")),
        Fault("a label whose exponential gain overflows", "an error; gains are always finite",
              ("tests/unit/metrics/test_gains.py::test_exponential_gains_stay_finite",
               "tests/contracts/test_label_domains.py::test_a_listwise_objective_with_exponential_gain_rejects_huge_labels")),
        Fault("an empty file, or one of comments", "`EmptyDataError`", (_CORPUS, "trial:text")),
        Fault("a query of one document, one label or nothing relevant",
              "never NaN by surprise: left out of the loss and counted, by a named convention in metrics",
              ("trial:numbers",
               "tests/unit/metrics/test_engine.py::test_value_of_a_query_without_relevant_documents")),
        Fault("a query that comes back in a stream", "an error with its line; `rankine sort` is offered",
              ("trial:text", f"{_DATA}/test_scan.py::test_the_error_names_the_line_and_the_way_out")),
        Fault("descending query ids", "read: contiguous is enough", ("trial:text",)),
        Fault("a row without a query id", "an error at the first such line", (_CORPUS,)),
        Fault("query ids that are text, fractions or beyond 64 bits",
              'exact 64-bit integers, or text when `qid_type="str"`; else an error',
              (_CORPUS, f"{_DATA}/readers/test_columns.py::test_query_ids_at_the_edges")),
        Fault("indices that count from 0 or from 1", "declared, kept in the model, never guessed",
              (_CORPUS, f"{_DATA}/readers/test_columns.py::test_base_is_declared")),
        Fault("an index beyond 2^31", "exact or refused; memory never follows an index", (_CORPUS, "trial:text")),
        Fault("more than 2^31 stored values", "64-bit offsets everywhere",
              ("tests/unit/kernels/test_products.py::test_products_have_the_same_bits_for_any_number_of_threads",
               "tests/unit/losses/test_active_pairs.py::test_counts_of_a_long_query_do_not_overflow")),
        Fault("an index twice in a row", "refused", (_CORPUS, "trial:text")),
        Fault("indices out of order", "sorted within the row, to the same bits",
              (f"{_DATA}/readers/test_letor.py::test_unsorted_rows_are_sorted", "trial:text")),
        Fault("`1:`, `1:2:3`, `0.1x`, `0x1p3`, `1_000`, `0,1`",
              "one strict decimal grammar; values equal Python's `float` to the bit",
              (_CORPUS, "trial:text", "tests/unit/kernels/test_numbers.py::test_labels_equal_float")),
        Fault("CRLF, lone CR, tabs, blank lines, any chunk boundary",
              "LF and CRLF are read, a lone CR is refused by name", (_CORPUS, "trial:text")),
        Fault("a file cut in mid-line", "a last line must be whole; that it has no newline is noted",
              (f"{_DATA}/readers/test_letor.py::test_every_prefix_agrees_with_the_slow_reader",)),
        Fault("cut or damaged compressed data", "an error; no row before it becomes a model",
              ("trial:compressed", f"{_DATA}/test_compression.py::test_every_truncation_is_refused")),
        Fault("a file of another kind", "an error that names the kind",
              (f"{_DATA}/test_compression.py::test_the_kind_is_named",)),
        Fault("bad UTF-8 and NUL bytes", "refused in tokens, shown escaped from comments",
              (_CORPUS, "trial:text")),
        Fault("a line without end", "`max_line_bytes`, enforced before the line is held",
              (f"{_DATA}/readers/test_letor.py::test_a_line_without_end_is_refused_before_it_is_buffered",)),
        Fault("a compression bomb", "a limit on the ratio and on memory",
              ("tests/reliability/test_bombs.py::test_bombs_are_refused_in_little_memory",
               f"{_DATA}/test_compression.py::test_a_compression_bomb_is_stopped")),
        Fault("damaged Parquet or Arrow",
              "footers, pages and values are checked; queries stay whole over row groups",
              ("trial:tables", f"{_DATA}/readers/test_parquet_guard.py::test_every_cut_is_refused")),
        Fault("a file that changes while it is read", "`ChangedDataError`; checkpoints are kept",
              (f"{_DATA}/test_scan.py::test_a_file_that_changes_between_passes",)),
    ],
    "Numbers": [
        Fault("constant, empty or huge features", "finite weights",
              ("tests/unit/rankers/test_spd.py::test_huge_and_constant_features_stay_finite",
               "tests/unit/rankers/test_spd.py::test_a_huge_column_is_learnt_from_in_memory_streams_and_partitions",
               "tests/unit/rankers/test_domination.py::test_constant_features_get_no_weight")),
        Fault("training that diverges", "`DivergenceError` with the last good checkpoint; NaN is never saved",
              ("tests/unit/rankers/test_elastic.py::test_divergence_names_the_last_good_checkpoint",
               "tests/unit/model/test_linear.py::test_weights_that_are_not_finite_are_refused")),
        Fault("other threads, chunks, formats or partitions", "the same bits",
              ("trial:determinism",
               "tests/contracts/test_thread_digests.py::test_models_of_any_number_of_threads_have_one_digest")),
        Fault("no memory left", "an error or the right result, never a death or a torn file",
              ("trial:memory",)),
    ],
    "Files that rankine writes": [
        Fault("a full disk or an I/O error in a save", "the old file stays whole; no litter", ("trial:io-faults",)),
        Fault("kill -9 or a power cut in a save", "the old file or the new one, whole",
              ("trial:save-kills", "trial:io-faults")),
        Fault("kill -9 in training", "the resumed model has the bits of the undisturbed one",
              ("trial:train-kills", "trial:checkpoints")),
        Fault("kill -9 in tuning", "no finished trial is lost, none runs for ever", ("trial:tune-kills",)),
        Fault("a study resumed with other data or another space", "refused, with the difference",
              ("tests/unit/tuning/test_study.py::test_a_study_refuses_to_continue_on_something_else",)),
    ],
    "Model files": [
        Fault("a damaged model", "refused: SHA-256 over every byte", ("trial:models",)),
        Fault("a malicious model with a right digest", "every length, index and number is checked; no code runs",
              ("trial:hostile-models",
               "tests/reliability/test_model_memory.py::test_memory_follows_the_file_and_not_its_numbers")),
        Fault("an old or a newer format", "old ones load to the same bits, newer ones are refused by name",
              ("tests/unit/model/test_golden.py::test_linear_format_1",
               "tests/unit/model/test_linear.py::test_a_newer_format_is_refused_by_name")),
        Fault("a model and rows of different features", "an error at load and at every request",
              ("tests/reliability/test_feature_mismatch.py::test_two_hundred_mismatches_are_all_caught",)),
    ],
    "Serving": [
        Fault("a model replaced under load, or by a bad one",
              "no request fails, no reply mixes two models; a bad file changes nothing",
              ("trial:reloads", f"{_SERVE}/test_reload.py::test_a_bad_file_changes_nothing_and_is_reported")),
        Fault("racing reloads, renames, partial copies", "a half-copied file is never served",
              (f"{_SERVE}/test_reload.py::test_racing_operations_never_serve_anything_wrong", "trial:serve-kills")),
        Fault("slow clients", "closed at their deadline; they hold up nobody", ("trial:slow-clients",)),
        Fault("large, deep or hostile JSON", "4xx, never 5xx; memory does not drift",
              ("trial:http", f"{_SERVE}/test_limits.py::test_sizes")),
        Fault("smuggled requests, bad framing, floods of headers", "4xx or a closed connection",
              ("trial:http", "tests/unit/serve/test_connection.py::test_doubtful_requests_are_refused")),
        Fault("overload and SIGTERM", "503 with Retry-After; what has arrived is answered before the end",
              (f"{_SERVE}/test_limits.py::test_a_full_queue_says_when_to_come_back",
               f"{_SERVE}/test_limits.py::test_stopping_answers_what_has_arrived")),
    ],
    "Clusters, commands, reports": [
        Fault("a worker killed", "training goes on and ends with the same bits",
              ("trial:worker-kills", "tests/unit/distributed/test_cluster.py::test_killed_workers_change_nothing")),
        Fault("the driver or the scheduler killed, or no progress",
              "resumed from the checkpoint with the same bits; never a hang",
              ("trial:train-kills",
               "tests/unit/distributed/test_cluster.py::test_a_killed_scheduler_is_an_error_and_the_run_resumes",
               "tests/unit/distributed/test_cluster.py::test_no_progress_is_an_error_in_time")),
        Fault("markup, escapes or formulas in names", "inert in HTML, terminals and exports",
              ("tests/contracts/test_exports.py::test_hostile_names_are_escaped",
               f"{_DATA}/test_html.py::test_hostile_names_are_inert")),
    ],
}  # fmt: skip
