"""The page at / in a real browser."""

import json
import os

import numpy as np
import pytest

from integration.serve.chromium import Browser, find_chromium
from integration.serve.serve_tools import NAMES, Server, make_model
from rankine import AdditiveRanker, LinearModel, Scorer
from rankine.serve.app import policy

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="no chromium: apt-get install chromium"),
]

ROWS = np.random.default_rng(1).normal(size=(6, 20)).round(3)
ITEMS = [
    {"id": f"doc {i}", "features": dict(zip(NAMES, row, strict=True))}
    for i, row in enumerate(ROWS.tolist())
]
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\x1b[31m'
READY = "document.querySelector('#items') && document.querySelector('#items').value !== ''"


@pytest.fixture(scope="module")
def browser():
    running = Browser()
    yield running
    running.close()


def rank(browser, text, model="shop"):
    """Paste text, press the button, wait for the end."""
    browser.evaluate(f"document.querySelector('#model').value = {json.dumps(model)}")
    browser.evaluate(f"document.querySelector('#items').value = {json.dumps(text)}")
    browser.evaluate("document.querySelector('#go').click()")
    browser.wait("!document.querySelector('#go').disabled")
    return browser.evaluate("document.querySelector('#status').textContent")


def texts(browser, selector):
    return browser.evaluate(
        f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)"
    )


def test_a_pasted_list_is_ranked_and_explained(server, browser, tmp_path):
    browser.open(server.facts["url"] + "/", READY)
    status = rank(browser, json.dumps(ITEMS))
    expected = Scorer(make_model(0)).rank([item["features"] for item in ITEMS])
    assert texts(browser, ".item .id") == [f"doc {i}" for i in expected.indices]
    assert make_model(0, metric="ndcg@10").digest[:12] in status
    assert len(texts(browser, ".item:first-child .terms .amount")) == 13  # twelve and the rest
    first = browser.evaluate(
        "[...document.querySelectorAll('.item:first-child .fill')].map((e) => e.style.width)"
    )
    widths = [float(width.rstrip("%")) for width in first]
    assert max(widths) <= 50
    assert widths[:12] == sorted(widths[:12], reverse=True)
    assert "Ahead of the next by" in texts(browser, ".item .lead")[0]
    assert len(texts(browser, ".item .lead")) == 5
    assert browser.faults() == []
    assert all(url.startswith((server.facts["url"], "data:")) for url in browser.requests())
    if folder := os.environ.get("RANKINE_SCREENSHOTS"):
        browser.evaluate("document.querySelector('#status').scrollIntoView()")
        browser.screenshot(f"{folder}/page.png")


def change(browser, card, name, value):
    """Open the fields of a card and type a value."""
    browser.evaluate(
        f"document.querySelectorAll('.item')[{card}].querySelector('.change').open = true"
    )
    field = (
        f"[...document.querySelectorAll('.item')[{card}].querySelectorAll('.fields label')]"
        f".find((label) => label.firstChild.data === {json.dumps(name)}).querySelector('input')"
    )
    browser.wait(
        f"document.querySelectorAll('.item')[{card}].querySelectorAll('.fields input').length > 0"
    )
    browser.evaluate(
        f"(() => {{ const input = {field}; input.focus(); input.value = {json.dumps(value)};"
        "input.dispatchEvent(new Event('input')); })()"
    )


def test_a_changed_value_moves_the_items(server, browser):
    browser.open(server.facts["url"] + "/", READY)
    rank(browser, json.dumps(ITEMS))
    scorer = Scorer(make_model(0))
    rows = [dict(item["features"]) for item in ITEMS]
    order = scorer.rank(rows).indices.tolist()
    last, feature = order[-1], max(NAMES, key=lambda name: abs(scorer.score([{name: 1.0}])[0]))
    rows[last][feature] = float(np.sign(scorer.score([{feature: 1.0}])[0]) * 100)
    change(browser, 5, feature, str(rows[last][feature]))
    expected = scorer.rank(rows)
    assert expected.indices[0] == last
    assert texts(browser, ".item .id") == [f"doc {i}" for i in expected.indices]
    assert texts(browser, ".item .moved") == ["▲ 5", *["▼ 1"] * 5]
    assert "1 value changed" in browser.evaluate("document.querySelector('#status').textContent")
    hidden = "[...document.querySelectorAll('.lead')].every((part) => part.hidden)"
    assert browser.evaluate(hidden)
    assert browser.evaluate("document.activeElement.classList.contains('changed')")
    if folder := os.environ.get("RANKINE_SCREENSHOTS"):
        browser.evaluate("document.querySelector('#status').scrollIntoView()")
        browser.screenshot(f"{folder}/what-if.png")
    browser.evaluate("document.querySelector('#again').click()")
    browser.wait("!document.querySelector('#go').disabled && list !== null")
    assert texts(browser, ".item .id") == [f"doc {i}" for i in expected.indices]
    assert "Ahead of the next by" in texts(browser, ".item .lead")[0]
    change(browser, 0, feature, "x")
    assert browser.evaluate("document.querySelector('#status').className") == "bad"
    browser.evaluate("document.querySelector('#undo').click()")
    assert texts(browser, ".item .moved") == [""] * 6
    assert browser.evaluate("document.querySelector('#status').className") == ""
    assert browser.faults() == []


def test_tables_and_letor_lines_can_be_pasted(server, browser):
    browser.open(server.facts["url"] + "/", READY)
    lines = [",".join(["id", *NAMES])]
    lines += [",".join([f'"doc, {i}"', *map(str, row)]) for i, row in enumerate(ROWS.tolist())]
    rank(browser, "\n".join(lines))
    order = Scorer(make_model(0)).rank([item["features"] for item in ITEMS]).indices.tolist()
    assert texts(browser, ".item .id") == [f"doc, {i}" for i in order]
    letor = [
        f"2 qid:7 {' '.join(f'{j + 1}:{x}' for j, x in enumerate(row))} # doc {i}"
        for i, row in enumerate(ROWS.tolist())
    ]
    rank(browser, "\n".join(letor))
    assert texts(browser, ".item .id") == [f"doc {i}" for i in order]
    rank(browser, json.dumps([item["features"] for item in ITEMS]))
    assert texts(browser, ".item .id") == [str(i + 1) for i in order]


def test_the_page_shows_errors_and_stays_usable(server, browser):
    browser.open(server.facts["url"] + "/", READY)
    assert "feature_x" in rank(browser, '[{"features": {"feature_x": 1}}]')
    assert browser.evaluate("document.querySelector('#status').className") == "bad"
    assert texts(browser, ".item") == []
    assert "JSON" in rank(browser, "[{")
    assert "6 of 6" in rank(browser, json.dumps(ITEMS))


def test_topics_of_a_bundle(server, browser):
    browser.open(server.facts["url"] + "/", READY)
    browser.evaluate(
        "document.querySelector('#model').value = 'topics';"
        "document.querySelector('#model').dispatchEvent(new Event('change'))"
    )
    browser.wait("document.querySelector('#items').value.includes('\"x\"')")
    assert browser.evaluate("!document.querySelector('#topic-label').hidden")
    browser.evaluate("document.querySelector('#topic').value = 'a/b'")
    items = [{"id": i, "features": {"z": i}} for i in range(3)]
    assert "topics/a/b" in rank(browser, json.dumps(items), "topics")
    assert texts(browser, ".item .id") == ["2", "1", "0"]


def test_names_and_ids_stay_text(browser, start, tmp_path):
    LinearModel.from_weights([1.0, 2.0], [HOSTILE, "b"]).save(tmp_path / "m.rankine")
    server = start(str(tmp_path))
    browser.open(server.facts["url"] + "/", READY)
    before = browser.evaluate("document.querySelectorAll('script, img, iframe').length")
    rank(browser, json.dumps([{"id": HOSTILE, "features": {HOSTILE: 1.0, "b": 2}}]), "m")
    assert texts(browser, ".item .id") == [HOSTILE]
    assert HOSTILE in texts(browser, ".terms .name")[1]
    assert browser.evaluate("window.hacked") is None
    assert browser.evaluate("document.querySelectorAll('script, img, iframe').length") == before


def test_the_policy_lets_nothing_else_run(server, browser):
    browser.open(server.facts["url"] + "/", READY)
    added = (
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 1';"
        "document.body.append(s); window.hacked === undefined"
    )
    assert browser.evaluate(added)
    blocked = "fetch('http://127.0.0.1:9/').then(() => false, () => true)"
    assert browser.evaluate(blocked)
    assert any("Content Security Policy" in str(fault) for fault in browser.faults())
    assert "sha256-" in policy("<style>a</style><script>b</script>")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark(server, browser, scheme, tmp_path):
    browser.resize(375, 740, scale=2)
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", features=media)
    try:
        browser.open(server.facts["url"] + "/", READY)
        rank(browser, json.dumps(ITEMS))
        assert browser.evaluate("document.documentElement.scrollWidth") <= 375
        assert [browser.cut_off(width) for width in (1280, 375)] == [[], []]
        height = browser.evaluate("document.querySelector('#go').getBoundingClientRect().height")
        assert height >= 44
        ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        bright = sum(int(part) for part in ground[4:-1].split(",")) / 3 > 128
        assert bright == (scheme == "light")
        if folder := os.environ.get("RANKINE_SCREENSHOTS"):
            browser.evaluate("document.querySelector('#status').scrollIntoView()")
            browser.screenshot(f"{folder}/phone-{scheme}.png")
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")
        browser.call("Emulation.setEmulatedMedia", features=[])


def test_the_page_requests_a_token_when_it_is_needed(browser, tmp_path):
    make_model(0).save(tmp_path / "m.rankine")
    token = tmp_path / ".token"
    token.write_text("Zm9yIHRoZSBwYWdlIG9mIHJhbmtpbmU=")
    token.chmod(0o600)
    server = Server(str(tmp_path), "--token-file", str(token))
    try:
        shown = "!document.querySelector('#token-label').hidden"
        browser.open(server.facts["url"] + "/", f"document.querySelector('#go') && {shown}")
        browser.evaluate(
            f"document.querySelector('#token').value = {json.dumps(token.read_text())};"
            "document.querySelector('#token').dispatchEvent(new Event('change'))"
        )
        browser.wait(READY)
        assert "6 of 6" in rank(browser, json.dumps(ITEMS), "m")
    finally:
        server.stop()


def test_terms_of_tables_name_the_cell_of_a_value(browser, start, tmp_path):
    X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, np.nan], [3.0, 1.0]])
    model = AdditiveRanker(pairs=0).fit(X, [0, 1, 2, 3]).to_model()
    model.save(tmp_path / "shop.rankine")
    browser.open(start(str(tmp_path)).facts["url"] + "/", READY)
    items = [{"features": {"1": 3.0, "2": None}}, {"features": {"1": 0.0, "2": 1.0}}]
    status = rank(browser, json.dumps(items))
    assert status.startswith("2 of 2 items"), status
    assert any("missing" in text for text in texts(browser, ".item .terms .name small"))
    change(browser, 0, "1", "-5")
    shown = [int(text.split()[1]) - 1 for text in texts(browser, ".item .id")]
    rows = [{"1": -5.0, "2": None}, {"1": 0.0, "2": 1.0}]
    assert shown == Scorer(model).rank(rows).indices.tolist()
    scores = [float(text) for text in texts(browser, ".item .score")]
    assert scores == pytest.approx(sorted(Scorer(model).score(rows), reverse=True), rel=1e-4)
