"""One tab: where it goes, what it shows, and what must never be wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from playwright.sync_api import ConsoleMessage, Locator, Page, Response

PICTURES = Path(__file__).resolve().parents[2] / "var" / "browser"
WIDTHS = (1400, 400)  # a desk, a phone
HEIGHT = 900
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
CONTRAST = 4.5  # WCAG AA, of text in its usual size

# A canvas turns any colour, oklab() too, into the red, green and blue that are seen. The
# background is the nearest ancestor's that has one.
_CONTRAST = """element => {
    const context = Object.assign(document.createElement("canvas"), {width: 1, height: 1})
        .getContext("2d", {willReadFrequently: true});
    const seen = color => {
        context.clearRect(0, 0, 1, 1);
        context.fillStyle = color;
        context.fillRect(0, 0, 1, 1);
        return [...context.getImageData(0, 0, 1, 1).data];
    };
    const light = rgb => rgb.slice(0, 3)
        .map(part => part / 255)
        .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
    let ground = [255, 255, 255, 255];
    for (let each = element; each; each = each.parentElement) {
        const found = seen(getComputedStyle(each).backgroundColor);
        if (found[3] === 255) { ground = found; break; }
    }
    const both = [light(seen(getComputedStyle(element).color)), light(ground)];
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
}"""

# Captions that reach beyond the region in which their table scrolls.
_CUT = """() => [...document.querySelectorAll(".jobs-scroll")].filter(region => {
    const right = element => element.getBoundingClientRect().right;
    return right(region.querySelector("caption")) > right(region) + 1;
}).map(region => region.innerText.slice(0, 80))"""


class Tab:
    """A page of Playwright that remembers its faults."""

    def __init__(self, page: Page, *, name: str) -> None:
        """Listen from the first page on; ``name`` is that of its pictures."""
        self.page = page
        self.name = name
        self.faults: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        page.on("response", self._answered)

    def _hear(self, message: ConsoleMessage) -> None:
        is_icon = message.location["url"].endswith("/favicon.ico")  # the site has none
        if message.type in ("error", "warning") and not is_icon:
            self.faults.append(f"console: {message.text}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.faults.append(f"{response.status}: {response.url}")

    def open(self, path: str) -> None:
        """Go to a path of the site."""
        self.page.goto(path)

    @property
    def content(self) -> Locator:
        """What the page is about, without the frame of the admin."""
        return self.page.locator("#content-main")

    def check_faults(self) -> None:
        """Fail when the console complained or something was not found."""
        self.page.evaluate("null")  # what was said before has been heard when this is answered
        assert not self.faults, "\n".join(self.faults)

    def check_looks(self, *parts: Locator) -> None:
        """See the page as desk and phone show it, in light and dark: it fits, and reads well.

        ``parts`` are texts whose contrast is measured. Pictures are left in var/browser.
        """
        PICTURES.mkdir(parents=True, exist_ok=True)
        for scheme in SCHEMES:
            self.page.emulate_media(color_scheme=scheme)
            for width in WIDTHS:
                self.page.set_viewport_size({"width": width, "height": HEIGHT})
                picture = PICTURES / f"{self.name}-{scheme}-{width}.png"
                self.page.screenshot(path=picture, full_page=True)
                assert width >= self._width(), f"it scrolls sideways at {width}: {picture}"
                assert [] == self.page.evaluate(_CUT), f"a caption is cut in {picture}"
                for part in parts:
                    assert CONTRAST <= part.evaluate(_CONTRAST), f"{part} in {picture}"

    def _width(self) -> int:
        return int(self.page.evaluate("document.documentElement.scrollWidth"))
