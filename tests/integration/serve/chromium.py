"""A headless Chromium over its DevTools protocol, with nothing but the standard library."""

import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
]


#: Code, tables and drawings of which a part cannot be seen: beyond the window, or in an ancestor
#: that hides what is too wide. What scrolls can be seen, but code should not need it on a desk.
CUT_OFF = """((reading) => [...document.querySelectorAll('pre, pre > code, table, svg, img, math')]
  .filter((e) => {
    const box = e.getBoundingClientRect();
    if (!box.width || e.closest('nav, header, button') || !e.checkVisibility()) return false;
    for (let p = e; p && p !== document.documentElement; p = p.parentElement) {
      if (!p.clientWidth || p.scrollWidth <= p.clientWidth + 1) continue;
      const how = getComputedStyle(p).overflowX;
      if (how === 'auto' || how === 'scroll') return reading && e.matches('pre, pre > code');
      if (how === 'hidden' || how === 'clip') return true;
    }
    return box.right > innerWidth + 1;
  }).map((e) => `${e.tagName} ${e.textContent.trim().slice(0, 60)}`))"""


def find_chromium():
    return (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )


class WebSocket:
    """Enough of RFC 6455 for one client: text frames out, text frames in."""

    def __init__(self, port, path):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.socket.recv(4096)
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        assert b" 101 " in head.split(b"\r\n")[0]

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        size = len(data)
        if size < 126:
            head = struct.pack("!BB", 0x81, 0x80 | size)
        elif size < 65536:
            head = struct.pack("!BBH", 0x81, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", 0x81, 0x80 | 127, size)
        masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))
        self.socket.sendall(head + mask + masked)

    def _take(self, size):
        while len(self.buffer) < size:
            part = self.socket.recv(65536)
            if not part:
                raise EOFError
            self.buffer += part
        found, self.buffer = self.buffer[:size], self.buffer[size:]
        return found

    def receive(self):
        message = b""
        while True:
            first, second = self._take(2)
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack("!H", self._take(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", self._take(8))
            message += self._take(size)
            if first & 0x80 and first & 0x0F in (0, 1):
                return message.decode()


class Browser:
    """One browser with one page."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        self.process = subprocess.Popen(
            [find_chromium(), *FLAGS, f"--user-data-dir={self.folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        place = Path(self.folder) / "DevToolsActivePort"
        end = time.monotonic() + 40
        while not (place.exists() and len(place.read_text().split()) == 2):
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("Chromium did not start")
            time.sleep(0.05)
        port, path = place.read_text().split()
        self.socket = WebSocket(int(port), path)
        self.count = 0
        self.events = []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        while True:
            found = json.loads(self.socket.receive())
            if found.get("id") == self.count:
                if "error" in found:
                    raise RuntimeError(found["error"])
                return found["result"]
            self.events.append(found)

    def resize(self, width, height=800, scale=1):
        """A window of that size; a narrow one is a phone's."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 500,
        )

    def evaluate(self, script):
        found = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"])
        return found["result"].get("value")

    def wait(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := self.evaluate(condition):
                return found
            time.sleep(0.05)
        raise AssertionError(f"never true: {condition}")

    def open(self, url, condition="document.readyState === 'complete'"):
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.wait(condition)

    def screenshot(self, path):
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def cut_off(self, width):
        """Code, tables and drawings that cannot be read whole in a window of that width."""
        self.resize(width)
        return self.evaluate(f"{CUT_OFF}({str(width > 1000).lower()})")

    def faults(self):
        """What the page logged as an error, and scripts that threw."""
        self.evaluate("1")
        found = [e["params"]["entry"] for e in self.events if e.get("method") == "Log.entryAdded"]
        thrown = [e for e in self.events if e.get("method") == "Runtime.exceptionThrown"]
        return [entry["text"] for entry in found if entry["level"] == "error"] + thrown

    def requests(self):
        """Addresses that the page asked for."""
        return [
            e["params"]["request"]["url"]
            for e in self.events
            if e.get("method") == "Network.requestWillBeSent"
        ]

    def close(self):
        self.process.terminate()
        self.process.wait(20)
        shutil.rmtree(self.folder, ignore_errors=True)
