"""Headless Chromium, spoken to through a pipe (the Chrome DevTools Protocol): nothing but the browser is needed."""

import base64
import json
import os
import shutil
import subprocess
import sys
import time

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_AT_3_AND_4 = "import os, sys; a = sys.argv; os.dup2(int(a[1]), 3); os.dup2(int(a[2]), 4); os.execv(a[3], a[3:])"


class Browser:
    """One page at a time; `events` holds what the browser has told of it."""

    def __init__(self, profile):
        to_read, self._commands = os.pipe()
        self._answers, to_write = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        command = [PROGRAM, *flags, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _AT_3_AND_4, str(to_read), str(to_write), *command],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._rest, self._number, self._session, self.events = b"", 0, None, []

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)

    def call(self, method, **params):
        """Return what the browser answers to a command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._number:
                assert "error" not in told, told
                return told["result"]
            self.events.append(told)

    def open(self, url, width, scheme="light"):
        """Show a page in a window of its own, `width` pixels wide."""
        self._session, self.events = None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events = []
        self.call("Page.navigate", url=url)
        while not any(told.get("method") == "Page.loadEventFired" for told in self.events):
            self.events.append(self._next())
        time.sleep(0.2)  # what is asked for late, and the first picture
        self.ask("1")

    def ask(self, expression):
        """Return the value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key):
        code, text = {"Tab": (9, {}), "ArrowRight": (39, {}), "Enter": (13, {"text": "\r"})}[key]
        for kind, typed in (("keyDown" if text else "rawKeyDown", text), ("keyUp", {})):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **typed)

    def picture(self, height=None):
        """Return a PNG of the whole page, or of its upper part."""
        clip = {"x": 0, "y": 0, "width": self.ask("innerWidth"), "height": height, "scale": 1}
        what = {} if height is None else {"clip": clip}
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, **what)
        return base64.b64decode(answer["data"])

    def told(self, *methods):
        return [told["params"] for told in self.events if told.get("method") in methods]

    def _next(self):
        while b"\0" not in self._rest:
            part = os.read(self._answers, 1 << 16)
            assert part, "the browser has ended"
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)
