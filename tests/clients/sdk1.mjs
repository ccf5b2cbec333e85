// The official TypeScript SDK, 1.x: the legacy era.
//
// usage: node sdk1.mjs PROGRAM [ARGUMENT]...   (the server's command line, or its address)

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

import { Person, connection, converse } from "./scenario.mjs";

const { transport, kind } = connection(process.argv.slice(2), StdioClientTransport, StreamableHTTPClientTransport);
const person = new Person();
const client = new Client({ name: "sdk1", version: "1" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, (request) => person.ask(request.params));
await client.connect(transport);

await converse({
  person,
  label: `typescript sdk 1.x, legacy, ${kind}`,
  listTools: async () => (await client.listTools()).tools.map((tool) => tool.name),
  call: async (name, given, options) => {
    let progress = 0;
    const result = await client.callTool({ name, arguments: given }, undefined, { onprogress: () => (progress += 1), ...options });
    return { result, progress };
  },
});
await client.close();
