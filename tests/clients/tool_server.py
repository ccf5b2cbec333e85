"""The official Python SDK, 1.x or 2.x, with a server on the library for authors of tool servers: its example `greet`.

usage: tool_server.py legacy|auto PROGRAM   (1.x speaks the legacy era alone)
"""

import asyncio
import os
import sys
from contextlib import asynccontextmanager

from mcp import StdioServerParameters

from scenario import check


@asynccontextmanager
async def session_of_1(parameters):
    from mcp import ClientSession
    from mcp.client.stdio import stdio_client

    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        initialized = await session.initialize()
        check(initialized.serverInfo.name == "greet", f"the server is {initialized.serverInfo}")

        async def call(tool, given, progress=None):
            result = await session.call_tool(tool, given, progress_callback=progress)
            return result.content[0].text, result.isError

        async def list_tools():
            return [(tool.name, tool.inputSchema) for tool in (await session.list_tools()).tools]

        yield str(initialized.protocolVersion), list_tools, call


@asynccontextmanager
async def session_of_2(parameters, mode):
    from mcp import Client

    async with Client(parameters, mode=mode) as client:

        async def call(tool, given, progress=None):
            result = await client.call_tool(tool, given, progress_callback=progress)
            return result.content[0].text, result.is_error

        async def list_tools():
            return [(tool.name, tool.input_schema) for tool in (await client.list_tools()).tools]

        yield client.protocol_version, list_tools, call


async def main(mode, program):
    parameters = StdioServerParameters(command=program, args=[], env=dict(os.environ))
    try:
        from mcp import Client  # noqa: F401

        connecting, sdk = session_of_2(parameters, mode), "2.x"
    except ImportError:
        connecting, sdk = session_of_1(parameters), "1.x"
    async with connecting as (version, list_tools, call):
        check((version == "2026-07-28") == (mode == "auto"), f"{mode} agreed on {version}")
        tools = dict(await list_tools())
        check(list(tools) == ["echo", "greet"], f"the tools are {list(tools)}")
        check(tools["echo"]["required"] == ["message"], f"the schema of echo is {tools['echo']}")

        check(await call("echo", {"message": "hi"}) == ("hi", False), "echo says it back")
        text, is_error = await call("greet", {"name": 7})
        check(is_error and "greet: name: " in text, f"a wrong argument is told by its name: {text}")
        text, is_error = await call("shout", {})
        check(is_error and "shout" in text, f"an unknown tool is told by its name: {text}")

        seen = []

        async def progress(value, total, message):
            seen.append((value, total, message))

        slow = asyncio.create_task(call("greet", {"name": "Ada", "times": 40}, progress))
        while not seen:
            check(not slow.done(), "the call ended without progress")
            await asyncio.sleep(0.01)
        check(await call("echo", {"message": "meanwhile"}) == ("meanwhile", False), "a call beside a slower one")
        text, is_error = await slow
        check(not is_error and text.splitlines() == ["Hello, Ada!"] * 40, f"greet says {text}")
        check([value for value, _, _ in seen] == sorted({value for value, _, _ in seen}), f"progress rises: {seen}")
        check(seen[-1] == (40, 40, "greeting"), f"the last progress is {seen[-1]}")
    print(f"ok: python mcp {sdk}, {version}, a server on the library", file=sys.stderr)


asyncio.run(main(sys.argv[1], sys.argv[2]))
