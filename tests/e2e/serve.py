"""serve.py LOCKSTEP: `lockstep serve` as browsers, scripts and attackers see it. Prints a line for each check, as lib.sh does.

The runs it serves are made here, some of them by an enemy: names that are markup, links out of the folder, files without end.
"""
import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

lockstep = sys.argv[1]
counts = {"ok": 0, "FAILED": 0}


def check(what, good, seen=""):
    word = "ok" if good else "FAILED"
    counts[word] += 1
    print(f"{word}: {what}" + ("" if good else f": {seen!r:.400}"), flush=True)


class Server:
    def __init__(self, *args):
        self.process = subprocess.Popen([lockstep, "serve", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        found = re.match(r"http://(\[?[^/]*?\]?):(\d+)/(?:\?token=([\w-]+))?$", self.url)
        if not found:
            self.process.kill()
            raise RuntimeError(self.url + self.process.stderr.read())
        self.port, self.token = int(found[2]), found[3]

    def ask(self, path, method="GET", headers=None, host=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.putrequest(method, path, skip_host=True)
        if host != "":
            connection.putheader("Host", host or f"127.0.0.1:{self.port}")
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        answer.text = answer.read().decode("utf-8", "replace")
        connection.close()
        return answer

    def ids(self):
        return {name: number for number, name in re.findall(r'<a href="/run/([0-9a-f]{16})">(.*?)</a>', self.ask("/").text)}

    def wait(self, what, good, seconds=20):
        """Asks for the list until it is as expected."""
        end = time.monotonic() + seconds
        seen = None
        while time.monotonic() < end:
            seen = self.ask("/").text
            if good(seen):
                check(what, True)
                return
            time.sleep(0.05)
        check(what, False, seen)

    def events(self, query):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        connection.sendall(f"GET /events{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return connection

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        code = self.process.wait(20)
        text = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return code, text


def read_until(connection, word, seconds=20):
    seen = b""
    end = time.monotonic() + seconds
    while word not in seen and time.monotonic() < end:
        if not select.select([connection], [], [], max(0, end - time.monotonic()))[0]:
            break
        part = connection.recv(65536)
        if not part:
            break
        seen += part
    return seen


def line(step, split="train", loss=1.0):
    return json.dumps({"step": step, "epoch": 1, "split": split, "loss": loss, "accuracy": 0.5, "lr": 0.1, "images_per_second": 1000.0,
                       "seconds": step / 10}) + "\n"


def make_run(path, lines=5, **manifest):
    os.makedirs(path)
    with open(f"{path}/manifest.json", "w", encoding="utf-8") as out:
        json.dump({"model": "m", "batch_size": 4, "started": "2026-01-01T00:00:00Z", "options": {"data": "d", "epochs": 3}, **manifest}, out)
    with open(f"{path}/metrics.jsonl", "w", encoding="utf-8") as out:
        out.writelines(line(i + 1) for i in range(lines))


def make_runs():
    evil = "<script>alert(1)</script>"
    make_run("runs/a")
    make_run("runs/deep/er/b")
    make_run("runs/1/2/3/4/too-deep")
    make_run("runs/" + '"><img src=x onerror=alert(2)>')
    make_run("runs/evil", model=evil, options={"data": evil, "epochs": evil, evil: evil, "sync": "'\"&<>"}, machine={"host": evil},
             started=evil)
    make_run("runs/half")
    with open("runs/half/metrics.jsonl", "a", encoding="utf-8") as out:
        out.write('{"step": 9, "epoch": 1, "spl')
    with open("runs/half/result.json", "w", encoding="utf-8") as out:
        out.write('{"steps": 5, "weights_')
    os.makedirs("runs/noise")
    with open("runs/noise/manifest.json", "wb") as out:
        out.write(os.urandom(5000))
    with open("runs/noise/metrics.jsonl", "wb") as out:
        out.write(b"\xff\xfe" * 200000)
    with open("runs/noise/resources.csv", "wb") as out:
        out.write(b"elapsed_time,cpu\n1,2\n\x00\x01,,,,\n1e999,-1\n")
    os.makedirs("outside")
    make_run("outside/secret-run")
    os.symlink("../outside/secret-run", "runs/link")
    os.makedirs("runs/trap")
    shutil.copy("runs/a/manifest.json", "runs/trap/manifest.json")
    os.symlink("/etc/passwd", "runs/trap/metrics.jsonl")
    os.mkfifo("runs/trap/result.json")
    return evil


def headers_and_methods(s):
    a = s.ask("/")
    check("the list: 200", a.status == 200, a.status)
    policy = a.getheader("Content-Security-Policy") or ""
    check("a policy without inline script", "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy, policy)
    check("nosniff, no-referrer", (a.getheader("X-Content-Type-Options"), a.getheader("Referrer-Policy")) == ("nosniff", "no-referrer"))
    check("no script and no style in the page", "<style" not in a.text and "<script>" not in a.text and "style=" not in a.text)
    check("usable without script", '<noscript><meta http-equiv="refresh"' not in a.text and 'action="/compare"' in a.text, a.text)
    h = s.ask("/", "HEAD")
    check("HEAD: headers alone", h.status == 200 and h.text == "" and int(h.getheader("Content-Length")) == len(a.text.encode()), h.getheaders())
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        r = s.ask("/", method, {"Content-Length": "0"})
        check(f"{method}: 405", r.status == 405 and r.getheader("Allow") == "GET, HEAD", r.status)
    for path, kind in (("/style.css", "text/css"), ("/page.js", "text/javascript"), ("/icon.svg", "image/svg+xml")):
        r = s.ask(path)
        check(f"{path}: {kind}", r.status == 200 and r.getheader("Content-Type").startswith(kind) and len(r.text) > 100, r.getheaders())


def hosts(s):
    for host, code in (("evil.example", 421), ("evil.example:80", 421), ("127.0.0.1.evil.example", 421), ("localhost", 200),
                       (f"localhost:{s.port}", 200), ("localhost:9999", 200), ("[::1]:80", 200), ("LocalHost", 200), ("localhost:x", 421),
                       ("[::1", 421), ("192.168.1.7", 421), ("", 421), ("a" * 3000, 421)):
        r = s.ask("/", host=host)
        # A request of HTTP/1.1 without Host is refused by the library itself.
        check(f"Host {host[:30]!r}: {code}", r.status == code or (host == "" and r.status == 400), r.status)


def paths(s):
    for path in ("/../../etc/passwd", "/run/../../../../etc/passwd", "/run/..%2f..%2fetc%2fpasswd", "/run/%2e%2e", "/runs/a/manifest.json",
                 "/run/", "/run/a", "/run/0123456789abcdef", "/run/0123456789ABCDEF", "/run/0123456789abcdefg", "//etc/passwd",
                 "/run/" + "a" * 5000, "/events?r=x", "/favicon.ico"):
        r = s.ask(path)
        check(f"{path[:40]}: not found", r.status == 404 and "root:" not in r.text, (r.status, r.text[:200]))
    r = s.ask("/compare?r=../../etc/passwd")
    check("compare of a path: 400", r.status == 400, r.status)
    r = s.ask("/compare?" + "&".join(f"r={i:016x}" for i in range(30)))
    check("compare of thirty: 400", r.status == 400, r.status)
    check("compare of nothing: the list", s.ask("/compare").getheader("Location") == "/")


def hostile(s, evil):
    ids = s.ids()
    listing = s.ask("/").text
    check("the runs that are there", set(ids) >= {"a", "deep/er/b", "evil", "half", "noise", "trap"}, sorted(ids))
    check("nothing through links, nothing too deep", "secret" not in listing and "too-deep" not in listing and "link" not in ids)
    check("a name that is markup is text", "<img" not in listing and "&lt;img" in listing, listing)
    for name, number in ids.items():
        page = s.ask("/run/" + number)
        check(f"the page of {name[:20]}", page.status == 200 and evil not in page.text and "<img" not in page.text and "root:" not in page.text,
              (page.status, page.text[:200]))
    many = s.ask("/compare?" + "&".join("r=" + number for number in ids.values()))
    check("all compared", many.status == 200 and evil not in many.text and "<img" not in many.text, many.text[:300])
    one = s.ask("/compare?r=" + ids["a"])
    check("one compared is its page", (one.status, one.getheader("Location")) == (303, "/run/" + ids["a"]), one.status)


def news(s):
    number = s.ids()["a"]
    version = re.search(r'data-events="/events\?v=(\d+)', s.ask("/run/" + number).text)[1]
    with s.events(f"?v={version}&r={number}") as connection:
        seen = read_until(connection, b"retry:")
        check("events begin", b"text/event-stream" in seen and b"retry:" in seen and b"change" not in seen, seen)
        with open("runs/a/metrics.jsonl", "a", encoding="utf-8") as out:
            out.write(line(77, loss=0.125))
        seen = read_until(connection, b"event: change")
        check("a line that is appended is an event", b"event: change" in seen, seen)
        page = s.ask("/run/" + number).text
        check("and the page has it", ">77<" in page and ">0.125<" in page, page)
    with s.events(f"?v=0&r={number}") as connection:
        seen = read_until(connection, b"event: change")
        check("who has an old page is told at once", b"event: change" in seen, seen)
        shutil.rmtree("runs/a")
        seen = read_until(connection, b"event: gone")
        check("a run that is removed is told", b"event: gone" in seen, seen)
    check("its page is gone", s.ask("/run/" + number).status == 404)
    make_run("runs/new/late")
    s.wait("a run that comes later is listed", lambda text: ">new/late<" in text)
    make_run("runs/a", lines=3, model="another")
    s.wait("and one of the old name", lambda text: ">another<" in text)


def slow_clients(s):
    """Those who ask and never read, or never end their question, keep nobody waiting."""
    lazy = []
    for i in range(100):
        one = socket.create_connection(("127.0.0.1", s.port), timeout=30)
        one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + (b"\r\n" if i % 2 else b"X-Slow: "))
        lazy.append(one)
    start = time.monotonic()
    answer = s.ask("/")
    check("100 who do not read: others are served", answer.status == 200 and time.monotonic() - start < 5, time.monotonic() - start)
    for one in lazy:
        one.close()


def tokens():
    s = Server("runs", "--port", "0", "--listen", "0.0.0.0")
    check("elsewhere than on this machine: a token", s.token is not None and len(s.token) == 32, s.url)
    for path in ("/", "/page.js", "/events", "/?token=wrong", "/?token=" + s.token[:-1], "/?token=" + s.token + "0", "/?token"):
        check(f"{path[:20]} without it: 401", s.ask(path).status == 401)
    check("nothing is told without it", "late" not in s.ask("/").text)
    check("another site's cookie", s.ask("/", headers={"Cookie": f"lockstep-{s.port}=x"}).status == 401)
    r = s.ask("/?token=" + s.token)
    cookie = r.getheader("Set-Cookie") or ""
    check("with it: a cookie and an address without it", r.status == 303 and r.getheader("Location") == "/" and "HttpOnly" in cookie and "SameSite" in cookie,
          (r.status, cookie))
    check("with the cookie", "late" in s.ask("/", headers={"Cookie": cookie.split(";")[0]}).text)
    check("as a bearer", s.ask("/", headers={"Authorization": "Bearer " + s.token}).status == 200)
    check("by address", s.ask("/", headers={"Authorization": "Bearer " + s.token}, host="192.168.1.7:80").status == 200)
    check("a stranger's name, with it", s.ask("/", headers={"Authorization": "Bearer " + s.token}, host="evil.example").status == 421)
    check("SIGTERM ends it", s.end(signal.SIGTERM)[0] == 0)
    s = Server("runs", "--port", "0", "--token", "my_own-token")
    check("a token of one's own", s.ask("/").status == 401 and s.ask("/", headers={"Authorization": "Bearer my_own-token"}).status == 200)
    s.end()


def wrong_words(port):
    def refused(args, code, *words):
        r = subprocess.run([lockstep, "serve", *args], capture_output=True, text=True, timeout=30, check=False)
        check(f"serve {' '.join(args)}: {code}", r.returncode == code and all(w in r.stderr for w in words) and r.stderr.count("\n") == 1,
              (r.returncode, r.stderr))
    refused(["runs", "--port", str(port)], 1, str(port), "in use", "--port ")
    refused(["nowhere"], 1, "nowhere")
    refused(["runs/half/metrics.jsonl"], 2, "not a folder")
    refused(["runs", "--listen", "example.org"], 2, "example.org", "127.0.0.1")
    refused(["runs", "--token", "short"], 2, "--token")
    refused(["runs", "--port", "70000"], 2, "70000")


def main():
    evil = make_runs()
    s = Server("runs", "--port", "0")
    headers_and_methods(s)
    hosts(s)
    paths(s)
    hostile(s, evil)
    news(s)
    slow_clients(s)
    wrong_words(s.port)
    with s.events("") as waiting:
        read_until(waiting, b"retry:")
        start = time.monotonic()
        code, text = s.end()
        check("Ctrl-C ends it at once, with listeners", code == 0 and time.monotonic() - start < 10, (code, text))
    tokens()
    os.makedirs("empty")
    s = Server("empty", "--port", "0")
    check("an empty folder", "No run is here yet" in s.ask("/").text)
    s.end()
    print(f"{counts['ok']} passed, {counts['FAILED']} failed")
    sys.exit(counts["FAILED"] > 0)


main()
