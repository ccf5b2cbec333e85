// A front end of Copilot CLI, by its published SDK, that is a person: runs one turn, approves the question that says so, and
// denies the others.
//
// usage: copilot_front_end.mjs COPILOT PROMPT

import { approveAll, CopilotClient, RuntimeConnection } from '@github/copilot-sdk';

const SECONDS = 120;
const [program, prompt] = process.argv.slice(2);

const client = new CopilotClient({ connection: RuntimeConnection.forStdio({ path: program }), useLoggedInUser: false });
await client.start();
const session = await client.createSession({
  model: process.env.COPILOT_MODEL,
  provider: { type: 'openai', baseUrl: process.env.COPILOT_PROVIDER_BASE_URL, apiKey: process.env.COPILOT_PROVIDER_API_KEY },
  // The servers that `copilot mcp add` wrote down.
  enableConfigDiscovery: true,
  onPermissionRequest: approveAll,
  onElicitationRequest: ({ message }) => message.includes('touch approves')
    ? { action: 'accept', content: { decision: 'approve' } }
    : { action: 'decline' },
});
const said = await session.sendAndWait({ prompt }, SECONDS * 1000);
console.log(said?.data.content);
await client.stop();
