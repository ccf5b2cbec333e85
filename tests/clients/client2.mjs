// The official TypeScript client, 2.x: the era it is told to speak, or the one it negotiates.
//
// usage: node client2.mjs legacy|auto PROGRAM [ARGUMENT]...   (the server's command line)

import assert from "node:assert/strict";

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { Person, converse } from "./scenario.mjs";

const [mode, command, ...args] = process.argv.slice(2);
const person = new Person();
const client = new Client(
  { name: "client2", version: "1" },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } },
);
client.setRequestHandler("elicitation/create", (request) => person.ask(request.params));
await client.connect(new StdioClientTransport({ command, args, env: { ...process.env } }));
const version = client.getNegotiatedProtocolVersion();
assert.equal(version === "2026-07-28", mode === "auto", `${mode} agreed on ${version}`);

await converse({
  person,
  label: `typescript client 2.x, ${version}`,
  timeout: mode === "auto" ? 5000 : undefined,
  listTools: async () => (await client.listTools()).tools.map((tool) => tool.name),
  call: async (name, given, options) => {
    let progress = 0;
    const result = await client.callTool({ name, arguments: given }, { onprogress: () => (progress += 1), ...options });
    return { result, progress };
  },
});
await client.close();
