"""The official Python SDK, 2.x: the era it negotiates, or the one it is told to speak.

usage: mcp2.py legacy|auto PROGRAM [ARGUMENT]...   (the server's command line)
"""

import asyncio
import os
import sys

import mcp_types as types
from mcp import Client, StdioServerParameters

from scenario import Person, check, converse


async def main(mode, command, arguments):
    person = Person()

    async def elicit(_context, params):
        return types.ElicitResult(**person.ask(params.message, params.requested_schema))

    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with Client(server, mode=mode, elicitation_callback=elicit) as client:
        version = client.protocol_version
        check((version == "2026-07-28") == (mode == "auto"), f"{mode} agreed on {version}")

        async def list_tools():
            return [tool.name for tool in (await client.list_tools()).tools]

        async def call(tool, given):
            seen = []

            async def progress(value, _total, message):
                seen.append((value, message))

            result = await client.call_tool(tool, given, progress_callback=progress)
            return result.structured_content, result.content[0].text, result.is_error, len(seen)

        await converse(list_tools, call, person, f"python mcp 2.x, {version}")


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
