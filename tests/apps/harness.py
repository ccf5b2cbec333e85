"""Serves the review page and the host that tests it, starts the browser, and prints what the host saw."""

import concurrent.futures
import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "crates/openoxide-mcp-server/src/convert/review/page.html"
# Stricter than what a host uses where a resource declares no domains, which allows images from its own origin.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
SECONDS = 90
LINES, BYTES = 432, 26 * 1024

# What each mutant does, the text of the page that it replaces, and what by.
MUTANTS = [
    ("takes text for markup", ": part));", ": document.createRange().createContextualFragment(part)));"),
    ("does not name hidden characters", "at % 2 ? el('span.odd', nameOf(part)) : part", "part"),
    ("never says that it is ready", "post({ method: 'ui/notifications/initialized', params: {} });", ""),
    ("says that it is ready too early", "ask('ui/initialize', {",
     "post({ method: 'ui/notifications/initialized', params: {} });\nask('ui/initialize', {"),
    ("asks for another protocol", "protocolVersion: '2026-01-26'", "protocolVersion: '2025-01-01'"),
    ("hears others than the host", "source !== host || ", ""),
    ("trusts the types of a result", "typeof value === 'string' ? value : ''", "value"),
    ("reads any message", "!isObject(data) || data.jsonrpc !== '2.0'", "false"),
    ("does not answer the teardown", "post({ id, result: asked", "if (method === 'ping') post({ id, result: asked"),
    ("does not refuse unknown requests", "return post({ id, error:", "return void ({ id, error:"),
    ("does not tell its size", "watcher.observe(document.body);", ""),
    ("ignores the theme", "root.dataset.theme = theme;", ""),
    ("does not redraw side by side", "drawFiles(); showQuotes();", ""),
    ("filters nothing", ".includes(wanted)", ".includes('')"),
    ("speaks as the assistant", "role: 'user'", "role: 'assistant'"),
    ("sends one block alone", "await send([block])", "await send(block)"),
    ("does not try the other form", "if (error.code !== -32602) throw error; return send(block);", "throw error;"),
    ("quotes nothing", "...parts, $('words')", "$('words')"),
    ("offers a message to a host that takes none", "$('talk').hidden = !", "$('talk').hidden = false && "),
    ("reads resources that the host does not offer", "if (!isObject(able.serverResources)) return", "if (false) return"),
    ("lets one bad escape end the list", "point > 0x10ffff ? escape : ", ""),
    ("says nothing of what it could not show", "$('unshown').append(", "void ("),
    ("shows a command of several lines as its first", "[first, ...more]", "[first]"),
    ("believes commands that were only spoken of", "call && /^( {4}|  \\| )/.test(lines[at + 1])", "call"),
    ("believes commands behind a margin", "/^\\* (?:exec_command", "/^ *\\* (?:exec_command"),
    ("takes a removed line for a file's header", "' +-'.includes(sign)", "' +-'.includes(sign) && !line.startsWith('--- ')"),
    ("loads a picture", "// Head of the page.", "new Image().src = '/stray.png';"),
    ("fetches", "// Head of the page.", "fetch('/stray').catch(() => {});"),
    ("forgets what was reviewed", "file.tick.checked = reviewed.has(file.key);", ""),
    ("cannot collapse a file", "file.body.hidden = closed.has(file.key);", "file.body.hidden = false;"),
]


class Served(http.server.ThreadingHTTPServer):
    """Knows the page under test, the requests that nobody expects, and the verdict."""

    daemon_threads = True

    def __init__(self, page):
        super().__init__(("127.0.0.1", 0), Handler)
        self.page, self.strays, self.verdict, self.done = page, [], None, threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.partition("?")[0]
        if path == "/view.html":
            probe = "<script>" + (HERE / "probe.js").read_text() + "</script>"
            self.give("text/html", self.server.page.replace("<head>", "<head>" + probe, 1), POLICY)
        elif path == "/host.html":
            self.give("text/html", (HERE / "host.html").read_text())
        elif path == "/host.js":
            self.give("text/javascript", (HERE / "host.js").read_text())
        elif path == "/results.json":
            self.give("application/json", (HERE / "results.json").read_text())
        elif path == "/shown":
            # A picture is taken once the host is loaded, which this holds back until all is shown.
            self.server.done.wait(SECONDS)
            self.give("text/javascript", "")
        else:
            self.server.strays.append(self.path)
            self.send_error(404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path != "/verdict":
            self.server.strays.append(self.path)
            self.send_error(404)
            return
        self.give("text/plain", "")
        self.server.verdict = json.loads(body)
        self.server.done.set()

    def give(self, kind, text, policy=None):
        body = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind + "; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        if policy:
            self.send_header("content-security-policy", policy)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def command(browser, profile, *arguments):
    line = [browser, "--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
            "--disable-background-networking", f"--user-data-dir={profile}"]
    # The browser's own sandbox does not start as root.
    return line + (["--no-sandbox"] if os.geteuid() == 0 else []) + list(arguments)


def judge(browser, page):
    """The checks of one page, as (what, held, detail)."""
    server = Served(page)
    with tempfile.TemporaryDirectory(prefix="openoxide-apps-", ignore_cleanup_errors=True) as profile:
        running = subprocess.Popen(command(browser, profile, "--window-size=1000,1400", server.origin + "/host.html"),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        ended = server.done.wait(SECONDS)
        # The browser is many processes, all of the group that was made for it.
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    server.shutdown()
    checks = list(server.verdict or [])
    checks.append(["the host came to its end", ended, f"no verdict in {SECONDS} s"])
    checks.append(["nothing was requested from the server but the pages", not server.strays, server.strays])
    return checks


def check(browser, page):
    """Prints the checks of the page; whether all held."""
    checks = judge(browser, page)
    size, lines = len(page.encode()), page.count("\n")
    checks.append(["the page is small", size < BYTES and lines < LINES, f"{size} bytes, {lines} lines"])
    for what, held, detail in checks:
        print(f"ok: {what}" if held else f"FAILED: {what}: {json.dumps(detail)[:600]}", file=sys.stderr)
    failed = sum(not held for _, held, _ in checks)
    print(f"{len(checks)} checks of the review page, {failed} failed", file=sys.stderr)
    return not failed


def mutate(browser, page):
    """Whether each mutant is noticed."""
    for name, old, _ in MUTANTS:
        if old not in page:
            sys.exit(f"the mutant that {name} does not fit the page any more")
    unnoticed = 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        judged = list(pool.map(lambda mutant: judge(browser, page.replace(mutant[1], mutant[2])), MUTANTS))
    for (name, _, _), checks in zip(MUTANTS, judged):
        found = [what for what, held, _ in checks if not held]
        unnoticed += not found
        print(f"ok: a page that {name}: {found[0]}" if found else f"FAILED: nothing noticed a page that {name}", file=sys.stderr)
    return not unnoticed


def picture(browser, page, directory):
    directory = pathlib.Path(directory).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    for name, query, size in [("light", "show=light", "900,1500"), ("dark", "show=dark", "900,1500"),
                              ("side", "show=light&side=1", "1100,1300"), ("narrow", "show=dark&width=320", "500,1900")]:
        server = Served(page)
        with tempfile.TemporaryDirectory(prefix="openoxide-apps-", ignore_cleanup_errors=True) as profile:
            subprocess.run(command(browser, profile, f"--window-size={size}",
                                   f"--screenshot={directory / (name + '.png')}", f"{server.origin}/host.html?{query}"),
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=SECONDS)
        server.shutdown()


def main():
    browser, *options = sys.argv[1:]
    page = PAGE.read_text()
    if options[:1] == ["--screenshots"] and len(options) == 2:
        picture(browser, page, options[1])
        return
    held = check(browser, page)
    if options == ["--mutants"]:
        held = mutate(browser, page) and held
    elif options:
        sys.exit(f"unknown arguments {options}; see tests/apps/run")
    sys.exit(not held)


main()
