"""The status page in a real Chromium: it obeys its own policy, is accessible, fits a phone, and lives."""

import contextlib
from importlib import resources

import pytest
import scenes
from playwright.sync_api import sync_playwright

from logwatch.outlets.web.app import build_app
from logwatch.outlets.web.server import Server, bind

pytestmark = pytest.mark.needs("chromium")

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCREENS = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 360, "height": 740}}


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, serve):
    """Opens a site's page; complaints of the browser (policy, script, network) are collected on it."""
    with contextlib.ExitStack() as stack:

        def go(site, screen="desktop", scheme="light", path="/", **options):
            client = serve(site)
            context = chromium.new_context(viewport=SCREENS[screen], color_scheme=scheme, **options)
            stack.callback(context.close)
            page = context.new_page()
            page.complaints = []
            page.on("console", lambda message: page.complaints.append(message.text))
            page.on("pageerror", lambda error: page.complaints.append(str(error)))
            page.goto(f"http://127.0.0.1:{client.port}{path}")
            return page

        yield go


def is_live(page):
    page.locator("#live.on", has_text="Live").wait_for()


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("scene", ["troubled", "eight_ranks", "hostile"])
def test_no_accessibility_violation(visit, scene, scheme, screen):
    """axe-core finds nothing to complain of, in light and dark, on desktop and phone, details open."""
    page = visit(scenes.SCENES[scene](), screen, scheme, bypass_csp=True, reduced_motion="reduce")
    is_live(page)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    axe = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page.evaluate(axe)
    found = page.evaluate("axe.run()")
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("scene", scenes.SCENES)
def test_the_page_obeys_its_policy_and_fits_the_screen(visit, scene, screen):
    """No script error, nothing refused by the policy, nothing run from the log, no sideways scrolling."""
    page = visit(scenes.SCENES[scene](), screen)
    is_live(page)
    assert page.complaints == []
    assert page.evaluate("window.owned") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREENS[screen]["width"]


def test_a_new_report_appears_by_itself(visit):
    """Within a moment of the report the open page shows the incident: sentence, title, colour, icon."""
    site = scenes.tuned()
    page = visit(site)
    is_live(page)
    assert page.locator("h1").inner_text().startswith("Target verify takes 19.08")
    each = scenes.report(900, 0.02895, run=1)
    scenes.feed(site, each, scenes.judgement(each), scenes.incident())
    page.locator("body.bad").wait_for()
    assert "28.95\u00a0ms a cycle since" in page.locator("h1").inner_text()
    assert page.title() == "28.95 ms · Out of band · logwatch"
    assert page.locator("#icon").get_attribute("href") == "static/bad.svg"
    assert page.locator("#strip .strip.wide path.bad").count() == 1


def test_what_was_opened_stays_open(visit):
    """An update leaves opened details open and the keyboard's place where it was."""
    site = scenes.tuned(2)
    page = visit(site)
    is_live(page)
    page.get_by_text("Each rank by itself").click()
    each = scenes.report(900, 0.0193)
    scenes.feed(site, each, scenes.judgement(each))
    page.locator("#strip .strip.wide .last", has_text="19.30").wait_for()
    assert page.locator("#each-rank").evaluate("each => each.open")
    assert page.evaluate("document.activeElement.textContent") == "Each rank by itself"


def test_the_page_says_when_it_is_no_longer_live(chromium, site):
    """When the server goes away the page says so instead of showing old figures as new ones."""
    server = Server(build_app(site), bind("127.0.0.1:0"))
    server.start()
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{server.address}/")
    is_live(page)
    server.stop()
    page.locator("#live.off", has_text="Connection lost").wait_for()
    context.close()


def test_the_page_is_complete_without_script(visit):
    """With scripts off the figures, the strip and the incident are there, and the page reloads itself."""
    page = visit(scenes.regressed(), java_script_enabled=False)
    assert "28.95\u00a0ms a cycle since" in page.locator("h1").inner_text()
    assert page.locator("#strip svg.wide").is_visible()
    assert page.get_by_text("CUDA graph off", exact=True).is_visible()
    assert page.locator("#live").inner_text() == "Updates every 10 s"
