// The official TypeScript SDK, 1.x, on a turn that takes longer than it waits: its time-out starts anew with each progress.
//
// usage: node slow.mjs LIMIT_SECONDS PROGRAM [ARGUMENT]...   (the server's command line, or its address)
//
// Prints what it saw as JSON.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

import { connection } from "./scenario.mjs";

const [limit, ...server] = process.argv.slice(2);
const { transport } = connection(server, StdioClientTransport, StreamableHTTPClientTransport);
const client = new Client({ name: "slow", version: "1" });
await client.connect(transport);

let told = Date.now();
let [progress, longestSilence] = [0, 0];
function onprogress() {
  progress += 1;
  longestSilence = Math.max(longestSilence, Date.now() - told);
  told = Date.now();
}
const options = { timeout: Number(limit) * 1000, resetTimeoutOnProgress: true, onprogress };
const given = { name: "openoxide", arguments: { prompt: "take your time" } };
const result = await client.callTool(given, undefined, options);
await client.close();
console.log(JSON.stringify({ structured: result.structuredContent, turn: result._meta['openoxide/turn'], progress, longestSilence: longestSilence / 1000 }));
