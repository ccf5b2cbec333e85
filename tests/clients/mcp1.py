"""The official Python SDK, 1.x: the legacy era.

usage: mcp1.py PROGRAM [ARGUMENT]...   (the server's command line, or its address)
"""

import asyncio
import os
import sys

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

from scenario import AUTHORIZATION, Person, cancel_task, converse, is_address, transport_of


def connect(server):
    if is_address(server):
        return streamablehttp_client(server[0], headers=AUTHORIZATION)
    return stdio_client(StdioServerParameters(command=server[0], args=server[1:], env=dict(os.environ)))


async def main(server):
    person = Person()

    async def elicit(_context, params):
        return types.ElicitResult(**person.ask(params.message, params.requestedSchema))

    calls = []

    async def log(params):
        calls.append(params.meta.requestId)

    async with connect(server) as (reader, writer, *_):
        async with ClientSession(reader, writer, elicitation_callback=elicit, logging_callback=log) as session:
            initialized = await session.initialize()
            assert initialized.serverInfo.name == "openoxide", initialized

            async def list_tools():
                return [tool.name for tool in (await session.list_tools()).tools]

            async def call(tool, given):
                seen = []

                async def progress(value, _total, message):
                    seen.append((value, message))

                result = await session.call_tool(tool, given, progress_callback=progress)
                return result.structuredContent, result.content[0].text, result.isError, len(seen)

            async def give_up(task):
                # This SDK tells the server of no call that it stops waiting for, so the notification is sent by hand.
                # It does not show the id of a request either; the server's log messages do.
                cancelled = types.CancelledNotification(params=types.CancelledNotificationParams(requestId=calls[-1]))
                await session.send_notification(types.ClientNotification(cancelled))
                await cancel_task(task)

            label = f"python mcp 1.x, {initialized.protocolVersion}, {transport_of(server)}"
            await converse(list_tools, call, person, label, give_up=give_up)


asyncio.run(main(sys.argv[1:]))
