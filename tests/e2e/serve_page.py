"""serve_page.py LOCKSTEP: the live page in a headless Chromium, over a training that runs. Prints a line for each check."""
import os
import re
import signal
import subprocess
import sys

from browser import Browser

lockstep = sys.argv[1]
counts = {"ok": 0, "FAILED": 0}
children = []


def check(what, good, seen=""):
    word = "ok" if good else "FAILED"
    counts[word] += 1
    print(f"{word}: {what}" + ("" if good else f": {seen!r:.400}"), flush=True)


def start(*words, **more):
    children.append(subprocess.Popen([lockstep, *words], text=True, **more))
    return children[-1]


def train(name, *words):
    return ["train", "softmax", "fake:1x8x8:4:2048", "-b", "32", "--log-every", "8", "--threads", "1", "-q", "--run", f"runs/{name}", *words]


STEP = """const t = [...document.querySelectorAll(".tile")].find((e) => e.innerText.includes("epoch"));
          return t ? Number(t.innerText.match(/step ([0-9,]+)/)[1].replaceAll(",", "")) : 0"""


def follow(b, url, number):
    """The curves of a run that trains move, and what a person has chosen stays."""
    b.go(f"{url}run/{number}")
    b.wait("return document.querySelectorAll('svg.ls').length >= 4", "curves are drawn")
    b.wait("return document.getElementById('live').className === 'on'", "events are connected")
    b.run("document.getElementById(document.querySelectorAll('.tabs label')[2].htmlFor).click()")
    b.run("document.querySelector('details').open = true")
    before = b.run(STEP)
    curve = "return [...document.querySelectorAll('.tabs .p0 path')].map((p) => p.getAttribute('d')).join()"
    b.run(f"window.drawn = (() => {{ {curve} }})()")
    b.wait(f"const step = () => {{ {STEP} }}; return step() > {before}", "the step advances")
    b.wait(f"return (() => {{ {curve} }})() !== window.drawn", "the curves advance")
    check("the curves advance while it trains", True)
    check("the chosen tab and opened options stay", b.run("return document.querySelector('.tabs .t2').checked && document.querySelector('details').open"))
    box = b.run("const r = document.querySelector('.tabs .p2 svg[data-x]').getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]")
    b.devtools("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
    tip = b.wait("const t = document.getElementById('tip'); return t.hidden ? '' : t.innerText", "pointing at a curve tells values")
    check("pointing at a curve tells its value", re.search(r"training [0-9.]+", tip) is not None, tip)


def compare(b, url):
    b.go(url)
    check("the list has all runs", b.run("return document.querySelectorAll('table.runs tbody tr').length") == 3)
    check("nothing is ticked: nothing to compare", b.run("return document.querySelector('form button').disabled"))
    b.run("for (const n of ['a', 'b']) [...document.querySelectorAll('tbody tr')].find((r) => r.innerText.includes(n + '\\t') || "
          "r.querySelector('.name').innerText === n).querySelector('input').click()")
    check("two are ticked", b.run("return document.querySelector('form button').textContent") == "Compare 2 runs")
    b.run("document.querySelector('form button').click()")
    title = b.wait("return location.pathname === '/compare' && document.querySelectorAll('svg.ls').length >= 2 && document.querySelector('h1').innerText",
                   "the comparison")
    check("ticked runs are compared", "2 runs compared" in title and "lr" in b.run("return document.querySelector('.sub').innerText"), title)


def fits(b, what):
    """No page is wider than a telephone, and its colours follow the system."""
    b.look(390, 800, dark=True)
    wide = b.run("return document.documentElement.scrollWidth")
    check(f"{what}: fits a telephone", wide <= 390, wide)
    dark = b.run("return getComputedStyle(document.body).backgroundColor")
    b.look(1200, 900)
    light = b.run("return getComputedStyle(document.body).backgroundColor")
    check(f"{what}: dark and light", dark != light and sum(map(int, re.findall(r"\d+", dark)[:3])) < 150, (dark, light))


def main():
    for words in (train("a", "--epochs", "2"), train("b", "--epochs", "2", "--lr", "0.02")):
        subprocess.run([lockstep, *words], check=True, stdout=subprocess.DEVNULL)
    start(*train("live", "--epochs", "1000000", "--no-eval", "--checkpoint-every", "none"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = start("serve", "runs", "--port", "0", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    url = server.stdout.readline().strip()
    with Browser() as b:
        b.go(url)
        number = b.wait("return [...document.querySelectorAll('.name a')].find((a) => a.innerText === 'live')?.pathname.slice(5)", "the run that trains")
        fits(b, "the list")
        follow(b, url, number)
        fits(b, "a run")
        compare(b, url)
        fits(b, "a comparison")
        os.kill(children[0].pid, signal.SIGKILL)
        b.go(url)
        b.wait("return [...document.querySelectorAll('tbody tr')].some((r) => r.innerText.includes('live') && r.innerText.includes('died'))",
               "a run that is killed has died")
        check("a run that is killed is shown as dead", True)
        complaints = b.complaints()
        check("no errors in the console", not complaints, complaints)


try:
    main()
except (AssertionError, RuntimeError) as problem:
    check("the page", False, str(problem))
finally:
    for child in children:
        child.kill()
        child.wait()
print(f"{counts['ok']} passed, {counts['FAILED']} failed")
sys.exit(counts["FAILED"] > 0)
