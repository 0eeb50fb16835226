"""Debian's Chromium without a window, and what it says of a page."""

import base64
import json
import os
import pathlib
import re

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

TAB = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
ENTER = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
RIGHT = {"key": "ArrowRight", "code": "ArrowRight", "windowsVirtualKeyCode": 39}
# Seconds of this machine after which a page that does not answer is given up.
PATIENCE_S = 120


class Chrome:
    """One browser. What it logged since the last look is handed out once."""

    def __init__(self, *more):
        options = webdriver.ChromeOptions()
        options.binary_location = os.environ["CHROMIUM"]
        # No name of a host is resolved: what a page loads from elsewhere fails, and is seen.
        for word in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--disable-background-networking", "--disable-component-update", "--disable-sync",
                     "--disable-default-apps", "--hide-scrollbars", "--disable-extensions", "--force-color-profile=srgb",
                     "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", *more):
            options.add_argument(word)
        if os.geteuid() == 0:
            options.add_argument("--no-sandbox")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(os.environ["CHROMEDRIVER"]))
        self.driver.set_script_timeout(PATIENCE_S)
        self.driver.set_page_load_timeout(PATIENCE_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()

    def ask(self, command, **more):
        return self.driver.execute_cdp_cmd(command, more)

    def run(self, script, *words):
        return self.driver.execute_script(script, *words)

    def wait(self, script, *words):
        """Of a script that ends by calling its last argument."""
        return self.driver.execute_async_script(script, *words)

    def view(self, width, dark=False, height=900):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = "dark" if dark else "light"
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address):
        self.said()
        # A new fragment alone would not load the page again.
        self.driver.get("about:blank")
        self.driver.get(address)

    def key(self, key, times=1):
        for _ in range(times):
            for kind in ("keyDown", "keyUp"):
                self.ask("Input.dispatchKeyEvent", type=kind, **key)

    def picture(self, path):
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12_000), "scale": 1}
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def said(self):
        """Errors and warnings of the console (violations of a policy among them), and addresses asked for."""
        lines = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        asked = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        asked = [url for url in asked if not re.match(r"about:blank|blob:|data:", url)]
        return lines, asked
