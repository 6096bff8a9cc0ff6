"""Chromium without a window, which opens pages of ours as a reader's browser would."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.support.needs import needs_dev_module, needs_tools

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

# Chromium reports to its makers, and root has no sandbox.
_FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
    "--hide-scrollbars",
)  # fmt: skip


class Browser:
    """One window."""

    def __init__(self, driver: WebDriver) -> None:
        self.driver = driver

    def open(self, page: Path, *, width: int = 1280, dark: bool = False) -> None:
        """Open a file, with scripts run to their ends."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._command("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._command("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get(page.absolute().as_uri())

    def run(self, script: str, *arguments: object) -> Any:
        """What a script returns there."""
        return self.driver.execute_script(script, *arguments)

    def complaints(self) -> list[str]:
        """Lines of the console: errors and warnings, also of resources that were refused."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]  # selenium has no types there

    def picture(self, out: Path) -> Path:
        """Write what the whole page looks like."""
        taken = self._command("Page.captureScreenshot", {"captureBeyondViewport": True})
        out.write_bytes(base64.b64decode(taken["data"]))
        return out

    def print(self, out: Path) -> Path:
        """Write the page as it is printed."""
        out.write_bytes(base64.b64decode(self._command("Page.printToPDF", {})["data"]))
        return out

    def _command(self, name: str, arguments: Mapping[str, object]) -> Any:
        return self.driver.execute_cdp_cmd(name, dict(arguments))


@contextmanager
def browser(directory: Path) -> Iterator[Browser]:
    """Start one, whose profile lies in ``directory``."""
    needs_dev_module("selenium")
    needs_tools("chromium", "chromedriver")
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in (*_FLAGS, f"--user-data-dir={directory}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=ChromeService("/usr/bin/chromedriver"))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
