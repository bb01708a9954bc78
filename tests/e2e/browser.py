"""browser.py: a headless Chromium for tests, driven through its own chromedriver by plain HTTP: no library is needed.

    with Browser() as b:
        b.go(url)
        b.run("return document.title")
        b.shot("page.png", width=390, dark=True)
        b.complaints()                      errors of the console so far
"""
import base64
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time


def missing():
    """What is not installed; "" if nothing is."""
    names = [n for n in ("chromium", "chromedriver") if not shutil.which(n)]
    return " and ".join(names)


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp()
        self.log = open(os.path.join(self.folder, "log"), "w+", encoding="utf-8")
        # A group of its own: what the driver starts ends with it.
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=self.log, stderr=self.log, start_new_session=True,
                                       env={**os.environ, "TMPDIR": self.folder, "HOME": self.folder})
        try:
            self.port = self._port()
            options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                                "--force-device-scale-factor=1", f"--user-data-dir={self.folder}/profile"],
                       "binary": shutil.which("chromium")}
            wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            self.session = ""
            self.session = "/session/" + self.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        except BaseException:
            self.close()
            raise

    def _port(self):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            with open(self.log.name, encoding="utf-8") as text:
                for line in text:
                    if "on port " in line and "success" in line:
                        return int(line.rsplit("on port ", 1)[1].strip(" .\n"))
            time.sleep(0.05)
        raise RuntimeError("chromedriver does not begin")

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, self.session + path if self.session else path, json.dumps(body) if body is not None else None)
        answer = json.loads(connection.getresponse().read())["value"]
        connection.close()
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(f"{path}: {answer.get('message', '')[:300]}")
        return answer

    def go(self, url):
        self.ask("POST", "/url", {"url": url})

    def run(self, script, *args):
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(args)})

    def wait(self, script, what, seconds=30):
        """Until the script gives something true; that."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(script)
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"waited in vain: {what}")

    def devtools(self, command, **params):
        return self.ask("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def look(self, width=1200, height=900, dark=False):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def shot(self, path, width=1200, dark=False, height=0):
        self.look(width, height or 900, dark)
        tall = height or min(self.run("return document.documentElement.scrollHeight"), 6000)
        self.look(width, tall, dark)
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.ask("GET", "/screenshot")))

    def complaints(self):
        return [e["message"] for e in self.ask("POST", "/se/log", {"type": "browser"}) if e["level"] == "SEVERE"]

    def close(self):
        try:
            if getattr(self, "session", ""):
                self.ask("DELETE", "")
        except (OSError, RuntimeError, ValueError):
            pass
        try:
            os.killpg(self.driver.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.driver.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
