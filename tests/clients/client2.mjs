// The official TypeScript client, 2.x: the era it is told to speak, or the one it negotiates.
//
// usage: node client2.mjs legacy|auto PROGRAM [ARGUMENT]...   (the server's command line, or its address)

import assert from "node:assert/strict";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { Person, connection, converse } from "./scenario.mjs";

const [mode, ...server] = process.argv.slice(2);
const { transport, kind } = connection(server, StdioClientTransport, StreamableHTTPClientTransport);
const person = new Person();
const client = new Client(
  { name: "client2", version: "1" },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } },
);
client.setRequestHandler("elicitation/create", (request) => person.ask(request.params));
await client.connect(transport);
const version = client.getNegotiatedProtocolVersion();
assert.equal(version === "2026-07-28", mode === "auto", `${mode} agreed on ${version}`);

await converse({
  person,
  label: `typescript client 2.x, ${version}, ${kind}`,
  timeout: mode === "auto" ? 5000 : undefined,
  listTools: async () => (await client.listTools()).tools.map((tool) => tool.name),
  call: async (name, given, options) => {
    let progress = 0;
    const result = await client.callTool({ name, arguments: given }, { onprogress: () => (progress += 1), ...options });
    return { result, progress };
  },
});
await client.close();
