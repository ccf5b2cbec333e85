"""Turns that take longer than their client waits for any answer, by each of the ways there are to see them completed.

The model is `slow_model.py`. At once, each against a server of its own, and the first two over Streamable HTTP as well:

- progress: the TypeScript SDK 1.x, whose time-out starts anew with each progress notification;
- a task: rmcp in the modern era, which has a task at once and asks for it until it is completed;
- `running`: the Python SDK 1.x with a time-out that nothing extends, against a server started with `--max-wait`;
- a known name: the same without `--max-wait`, as hosts that give up after 60 s whatever they are told. This needs a turn of
  its full length.

OPENOXIDE_SLOW_SECONDS is how long the model takes: 20 by default, 360 for the six minutes that a slow model may well take.
The clients wait for 60 s, or for two fifths of a shorter time.

usage: slow.py NODE SLOW_MJS RMCP_CLIENT PROGRAM
"""

import asyncio
import json
import os
import secrets
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from datetime import timedelta

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client

from scenario import check
from slow_model import SlowModel

SECONDS = float(os.environ.get("OPENOXIDE_SLOW_SECONDS") or 20)
# What the server knows that hosts of these names wait.
KNOWN, KNOWN_LIMIT = ("Zed", "inspector-cli"), 60
LIMIT = min(KNOWN_LIMIT, SECONDS * 2 / 5)
MAX_WAIT = max(LIMIT - 10, LIMIT / 2)


def check_completed(structured, turn):
    check(structured["status"] == "completed", structured)
    check(structured["content"].startswith("slowly: word-1 word-2") and "and-done" in structured["content"], structured)
    check(turn["durationMs"] >= SECONDS * 1000, structured)


async def printed(*command):
    """What a client program prints: one JSON object."""
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    check(process.returncode == 0, f"{command[:2]} ended with {process.returncode}")
    return json.loads(output)


@asynccontextmanager
async def listening(server):
    """A server that listens: its address."""
    os.environ["OPENOXIDE_TOKEN"] = secrets.token_urlsafe(24)
    process = await asyncio.create_subprocess_exec(
        *server, "--listen", "http://127.0.0.1:0", "--token-env", "OPENOXIDE_TOKEN", stderr=asyncio.subprocess.PIPE)
    try:
        said = (await process.stderr.readline()).decode()
        check("http://" in said, said)
        yield said[said.index("http://"):].strip()
    finally:
        process.terminate()
        await process.communicate()
    check(process.returncode == 0, f"the server that listens ended with {process.returncode}")


async def by_progress(node, script, server):
    seen = await printed(node, script, str(LIMIT), *server)
    check_completed(seen["structured"], seen["turn"])
    check(seen["longestSilence"] < LIMIT, seen)
    return f"{seen['progress']} times progress, at most {seen['longestSilence']:.1f} s apart"


async def by_task(client, server):
    seen = await printed(client, "slow-task", str(LIMIT), *server)
    check_completed(seen["structured"], seen["turn"])
    return f"{seen['polls']} polls, the longest request {seen['longestRequest']:.2f} s"


async def by_running(server, name="patient"):
    """Each call is answered within the limit; `running` until the turn is over."""
    parameters = StdioServerParameters(command=server[0], args=server[1:], env=dict(os.environ))
    waits = []
    async with stdio_client(parameters) as (reader, writer):
        info = types.Implementation(name=name, version="1")
        async with ClientSession(reader, writer, timedelta(seconds=LIMIT), client_info=info) as session:
            await session.initialize()

            async def call(tool, **arguments):
                begun = time.monotonic()
                result = await session.call_tool(tool, arguments)
                waits.append(time.monotonic() - begun)
                check(not result.isError, result)
                return result.structuredContent, result.meta["openoxide/turn"]

            structured, turn = await call("openoxide", prompt="take your time")
            check(structured["status"] == "running", structured)
            thread = structured["threadId"]
            while structured["status"] == "running":
                structured, turn = await call("openoxide-reply", thread_id=thread)
    check_completed(structured, turn)
    check(structured["threadId"] == thread, structured)
    return f"{len(waits)} calls, of " + ", ".join(f"{wait:.1f}" for wait in waits) + " s"


async def told(label, way):
    print(f"ok: slow turn of {SECONDS:g} s, a limit of {LIMIT:g} s, {label}: {await way}", file=sys.stderr)


async def main(node, script, rmcp_client, program):
    model = SlowModel(SECONDS)
    with tempfile.TemporaryDirectory(prefix="openoxide-slow-") as directory:
        os.chdir(directory)
        server = [program, "mcp-server", *model.settings()]
        async with listening(server) as address, asyncio.TaskGroup() as turns:
            turns.create_task(told("by progress, stdio", by_progress(node, script, server)))
            turns.create_task(told("by progress, http", by_progress(node, script, [address])))
            turns.create_task(told("by a task, stdio", by_task(rmcp_client, server)))
            turns.create_task(told("by a task, http", by_task(rmcp_client, [address])))
            waiting = [*server, "--max-wait", str(MAX_WAIT)]
            turns.create_task(told(f"by running, --max-wait {MAX_WAIT:g}", by_running(waiting)))
            if LIMIT >= KNOWN_LIMIT:
                for name in KNOWN:
                    turns.create_task(told(f"by running, as {name}", by_running(server, name)))
        os.chdir("/")


asyncio.run(main(*sys.argv[1:]))
