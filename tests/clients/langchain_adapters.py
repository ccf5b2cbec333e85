"""The MCP adapters of LangChain: the legacy era, with a server for each call or with one session.

usage: langchain_adapters.py calls|session PROGRAM [ARGUMENT]...   (the server's command line)
"""

import asyncio
import os
import sys

from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp import types

from scenario import Person, cancel_task, check, converse


class Told:
    """What the server sends on its own."""

    def __init__(self, person):
        self.person, self.progress, self.calls = person, 0, []

    async def on_elicitation(self, _mcp_context, params, _context):
        return types.ElicitResult(**self.person.ask(params.message, params.requestedSchema))

    async def on_progress(self, _progress, _total, _message, _context):
        self.progress += 1

    async def on_logging_message(self, params, _context):
        self.calls.append(params.meta.requestId)

    def callbacks(self):
        return Callbacks(self.on_logging_message, self.on_progress, self.on_elicitation)


async def talk(load_tools, told, label, **options):
    tools = {tool.name: tool for tool in await load_tools()}

    async def list_tools():
        return list(tools)

    async def call(tool, given):
        before = told.progress
        message = await tools[tool].ainvoke({"type": "tool_call", "id": "1", "name": tool, "args": given})
        structured = message.artifact and message.artifact["structured_content"]
        return structured, message.text, message.status == "error", told.progress - before

    await converse(list_tools, call, told.person, f"langchain-mcp-adapters, {label}", **options)


async def main(mode, command, arguments):
    told = Told(Person())
    connection = {"transport": "stdio", "command": command, "args": arguments, "env": dict(os.environ)}
    client = MultiServerMCPClient({"openoxide": connection}, callbacks=told.callbacks())
    if mode == "calls":

        async def end_server(task):
            # Giving a call up closes its server's input, and the reply finds the thread on disk. The SDK below may fail
            # over what the server still writes, instead of ending as cancelled.
            task.cancel()
            await asyncio.wait([task])
            check(task.cancelled() or task.exception(), "the call ended without a result")

        await talk(client.get_tools, told, "a server for each call", give_up=end_server, lasting=False)
        return
    async with client.session("openoxide") as session:

        async def give_up(task):
            # As with the SDK below it: nothing tells the server that a call is given up, unless it is sent by hand.
            cancelled = types.CancelledNotification(params=types.CancelledNotificationParams(requestId=told.calls[-1]))
            await session.send_notification(types.ClientNotification(cancelled))
            await cancel_task(task)

        async def load_tools():
            return await load_mcp_tools(session, callbacks=told.callbacks())

        await talk(load_tools, told, "one session", give_up=give_up)


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
