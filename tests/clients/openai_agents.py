"""The MCP client of the OpenAI Agents SDK, which speaks the era it negotiates and needs no model for this.

It takes a handler for messages but none for elicitation, so that nobody can be asked; it asks for no progress, and
gives a call up after 5 s unless told otherwise.

usage: openai_agents.py PROGRAM [ARGUMENT]...   (the server's command line)
"""

import asyncio
import os
import sys

from agents.mcp import MCPServerStdio

from scenario import converse, time_out


async def main(command, arguments):
    async with MCPServerStdio({"command": command, "args": arguments, "env": dict(os.environ)}) as server:

        async def list_tools():
            return [tool.name for tool in await server.list_tools()]

        async def call(tool, given):
            result = await server.call_tool(tool, given)
            return result.structured_content, result.content[0].text, result.is_error, 0

        label = f"openai-agents, {server.session.protocol_version}"
        await converse(list_tools, call, None, label, give_up=time_out, progress=False)


asyncio.run(main(sys.argv[1], sys.argv[2:]))
