"""The client of fastmcp: the era it is told to speak, or the one it negotiates.

usage: fastmcp_client.py legacy|auto PROGRAM [ARGUMENT]...   (the server's command line, or its address)
"""

import asyncio
import os
import sys

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

from scenario import AUTHORIZATION, Person, cancel_task, check, converse, is_address, time_out, transport_of

TIMEOUT_SECONDS = {"legacy": None, "auto": 5}



def connection(server):
    if is_address(server):
        return StreamableHttpTransport(server[0], headers=AUTHORIZATION)
    return StdioTransport(command=server[0], args=server[1:], env=dict(os.environ))


async def main(mode, server):
    person = Person()

    async def elicit(message, response_type, params, _context):
        answer = person.ask(message, params.requested_schema)
        if answer["action"] != "accept":
            return ElicitResult(**answer)
        # What fastmcp makes of the schema is what its users fill in.
        return response_type(**answer["content"])

    async def log(_message):
        """Instead of fastmcp's own, which prints every event."""

    async with Client(connection(server), mode=mode, elicitation_handler=elicit, log_handler=log) as client:
        version = client.protocol_version
        check((version == "2026-07-28") == (mode == "auto"), f"{mode} agreed on {version}")

        async def list_tools():
            return [tool.name for tool in await client.list_tools()]

        async def call(tool, given):
            seen = []

            async def progress(value, _total, message):
                seen.append((value, message))

            result = await client.call_tool(
                tool, given, progress_handler=progress, timeout=TIMEOUT_SECONDS[mode], raise_on_error=False)
            return result.structured_content, result.content[0].text, result.is_error, len(seen)

        give_up = time_out if TIMEOUT_SECONDS[mode] else cancel_task
        await converse(list_tools, call, person, f"fastmcp, {version}, {transport_of(server)}", give_up=give_up)


asyncio.run(main(sys.argv[1], sys.argv[2:]))
