"""The official Python SDK, 2.x: the era it negotiates, or the one it is told to speak.

usage: mcp2.py legacy|auto PROGRAM [ARGUMENT]...   (the server's command line, or its address)
"""

import asyncio
import os
import sys
from contextlib import asynccontextmanager

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from scenario import AUTHORIZATION, Person, check, converse, is_address, transport_of


@asynccontextmanager
async def listening(url):
    async with create_mcp_http_client(headers=AUTHORIZATION) as http_client:
        async with streamable_http_client(url, http_client=http_client) as streams:
            yield streams


def connection(server):
    if is_address(server):
        return listening(server[0])
    return StdioServerParameters(command=server[0], args=server[1:], env=dict(os.environ))


async def main(mode, server):
    person = Person()

    async def elicit(_context, params):
        return types.ElicitResult(**person.ask(params.message, params.requested_schema))

    async with Client(connection(server), mode=mode, elicitation_callback=elicit) as client:
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

        await converse(list_tools, call, person, f"python mcp 2.x, {version}, {transport_of(server)}")


asyncio.run(main(sys.argv[1], sys.argv[2:]))
