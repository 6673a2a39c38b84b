"""The page as a browser shows it: at the width of a phone, by keyboard, dark and light, asking the net for nothing."""

import io
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from browser import PROGRAM, Browser
from test_report import GIF, make_fleet, make_run, make_study

from argosy import cli
from argosy.cli.live import Dashboard, page_maker

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here (apt-get install chromium)")
WIDE = """[...document.querySelectorAll('body *')].filter(one => !one.closest('.scroll table, svg')
  && one.getBoundingClientRect().right > innerWidth + 0.5).map(one => one.outerHTML.slice(0, 80))"""
CURVES = """[...document.querySelectorAll('polyline')].filter(one => !one.closest('details:not([open])')).map(one => {
  const box = one.getBoundingClientRect(), style = getComputedStyle(one);
  return box.width > 20 && style.visibility == 'visible' && style.stroke.startsWith('rgb(') && +style.opacity })"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Of all that a report shows: several algorithms, long names, a study, a fleet, something damaged."""
    root = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        make_run(root, "ppo", "CartPole-v1", seed, 500.0 - seed)
        make_run(root, "a2c", "CartPole-v1", seed, 450.0 - seed, clip=seed < 9)
        make_run(root, "a_name_that_is_as_long_as_names_of_modules_are:AndClasses", "Pendulum-v1", seed, -200.0 + seed)
    (make_run(root, "dqn", seed=9) / "config.json").write_text("{")
    (make_run(root, "dqn", "Acrobot-v1") / "video.gif").write_bytes(GIF)
    make_study(root / "study")
    make_fleet(root)
    return root


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "report.html"
    assert cli.main(["report", str(runs), "-o", str(out)]) == 0
    return out.as_uri()


def asked_for(browser):
    """But for what is in the page itself."""
    urls = [told["request"]["url"] for told in browser.told("Network.requestWillBeSent")]
    return [url for url in urls if not url.startswith("data:")]


def said(browser):
    return browser.told("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_shows_its_curves_and_asks_for_nothing(browser, page, width, scheme):
    image = pytest.importorskip("PIL.Image")
    browser.open(page, width, scheme)
    assert browser.ask("innerWidth") == width
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask(WIDE) == []
    curves = browser.ask(CURVES)
    assert len(curves) > 10
    assert all(curves)
    picture = np.asarray(image.open(io.BytesIO(browser.picture())).convert("RGB"), np.int64)
    assert (np.median(picture) > 230) == (scheme == "light")
    assert (np.median(picture) < 40) == (scheme == "dark")
    blue = np.abs(picture - (0x48, 0x78, 0xD0)).sum(axis=2)  # the first curve's
    assert (blue < 12).sum() > 100
    assert asked_for(browser) == [page]
    assert said(browser) == []


def test_the_keyboard_reaches_and_scrolls_every_table(browser, page):
    browser.open(page, 400)
    places = "[...document.querySelectorAll('summary, .scroll:not(details .scroll)')]"
    count = browser.ask(f"{places}.length")
    reached = []
    for _ in range(count):
        browser.press("Tab")
        reached.append(browser.ask(f"{places}.indexOf(document.activeElement)"))
        assert browser.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        top, bottom = browser.ask("(box => [box.top, box.bottom])(document.activeElement.getBoundingClientRect())")
        assert top < 800
        assert bottom > 0  # it has been scrolled to
    assert reached == list(range(count))
    too_wide = "[...document.querySelectorAll('.scroll')].findIndex(one => one.scrollWidth > one.clientWidth + 40)"
    browser.ask(f"document.querySelectorAll('.scroll')[{browser.ask(too_wide)}].focus()")
    for _ in range(3):
        browser.press("ArrowRight")
    scrolled = "new Promise(done => setTimeout(() => done(document.activeElement.scrollLeft), 500))"
    answer = browser.call("Runtime.evaluate", expression=scrolled, awaitPromise=True, returnByValue=True)
    assert answer["result"]["value"] > 0


def test_losses_and_films_are_opened_by_the_keyboard(browser, page):
    browser.open(page, 400)
    hidden = len(browser.ask(CURVES))
    assert browser.ask("document.querySelectorAll('details').length") >= 2
    assert browser.ask("document.querySelectorAll('details[open]').length") == 0
    for number in range(browser.ask("document.querySelectorAll('details').length")):
        browser.ask(f"document.querySelectorAll('summary')[{number}].focus()")
        browser.press("Enter")
    assert browser.ask("document.querySelectorAll('details:not([open])').length") == 0
    curves = browser.ask(CURVES)
    assert len(curves) > hidden
    assert all(curves)
    films = "[...document.images].map(one => one.complete && one.naturalWidth > 0 && one.checkVisibility())"
    assert browser.ask(films) == [True]
    assert browser.ask(WIDE) == []
    assert asked_for(browser) == [page]
    assert said(browser) == []


def test_the_live_page_does_the_same(browser, runs):
    make = page_maker([str(runs)], None, 60.0)
    server = Dashboard(make, 60.0, token="secret")
    server.page = make()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        browser.open(server.url, 400)
        assert browser.ask("document.documentElement.scrollWidth") <= 400
        assert all(browser.ask(CURVES))
        assert {url for url in asked_for(browser) if not url.endswith("/favicon.ico")} == {server.url}
        assert said(browser) == []
        browser.open(f"{server.url}&open", 400)
        assert browser.ask("document.querySelectorAll('details[open]').length") >= 2
        assert browser.ask("document.images[0].naturalWidth") == 1
        assert said(browser) == []
    finally:
        server.shutdown()
        server.server_close()
