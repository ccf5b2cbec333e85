// What every TypeScript SDK must see: the steps of one conversation and their checks. The twin of scenario.py.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { constants, existsSync, mkdtempSync, openSync, readdirSync, rmSync } from "node:fs";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

const TOOLS = ["openoxide", "openoxide-reply", "openoxide-query"];
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

// Answers the server's questions as told, and remembers them.
export class Person {
  questions = [];
  answer = { action: "accept", content: { decision: "approve" } };

  ask(params) {
    assert.ok(params.requestedSchema.properties.decision);
    this.questions.push(params.message);
    return this.answer;
  }
}

// The transport to a server: a command line, or the one address of a server that listens, whose token is in the environment.
export function connection([first, ...args], Stdio, StreamableHttp) {
  if (!first.startsWith("http://")) {
    return { transport: new Stdio({ command: first, args, env: { ...process.env } }), kind: "stdio" };
  }
  const headers = { Authorization: `Bearer ${process.env.OPENOXIDE_TOKEN}` };
  return { transport: new StreamableHttp(new URL(first), { requestInit: { headers } }), kind: "http" };
}

async function within(seconds, promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${seconds} s: ${what}`)), seconds * 1000);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

// A command that would run for half a minute, and whose life shows: it and its children hold a pipe open, which tells of
// every process that has it, in whatever namespace, and ends when the last of them does.
class SlowCommand {
  prompt = "run `(echo started; sleep 30) > alive`";

  constructor(directory) {
    this.directory = directory;
    this.path = join(directory, "alive");
    execFileSync("mkfifo", [this.path]);
    const fd = openSync(this.path, constants.O_RDONLY | constants.O_NONBLOCK);
    this.output = new Socket({ fd, writable: false })[Symbol.asyncIterator]();
  }

  async untilStarted() {
    const { value } = await within(60, this.output.next(), "the slow command starts");
    assert.equal(String(value), "started\n");
  }

  // Well before the command would end by itself.
  async untilDead() {
    const { done } = await within(15, this.output.next(), "the slow command is killed");
    assert.ok(done, "the slow command only ends");
    rmSync(this.path);
    // What the sandbox lays over protected names goes a little after the command, and after an `interrupted` answer.
    const deadline = Date.now() + 15_000;
    while (readdirSync(this.directory).some((name) => name.startsWith("."))) {
      assert.ok(Date.now() < deadline, String(readdirSync(this.directory)));
      await pause(10);
    }
  }
}

// `listTools()` gives names; `call(tool, arguments, options)` gives the result and how often progress was told. A call is
// given up by a signal among the SDK's request options, or after `timeout` milliseconds where that is set.
export async function converse({ listTools, call, person, label, timeout }) {
  assert.deepEqual(await listTools(), TOOLS);
  const directory = mkdtempSync(join(tmpdir(), "openoxide-client-"));
  try {
    const first = await call("openoxide", { prompt: "run `touch approved.txt`", cwd: directory, approval_policy: "untrusted" });
    assert.ok(!first.result.isError, JSON.stringify(first.result));
    assert.equal(first.result.structuredContent.status, "completed");
    assert.equal(person.questions.length, 1);
    assert.match(person.questions[0], /touch approved\.txt/);
    assert.ok(existsSync(join(directory, "approved.txt")), "the approved command ran");
    const thread = first.result.structuredContent.threadId;
    assert.match(thread, UUID);
    assert.ok(first.result.content[0].text.includes(thread), "the text names the thread as well");
    assert.ok(first.progress > 0, "progress was sent");

    const second = await call("openoxide-reply", { thread_id: thread, prompt: "run `touch second.txt`" });
    assert.equal(second.result.structuredContent.threadId, thread);
    assert.equal(person.questions.length, 2);
    assert.ok(existsSync(join(directory, "second.txt")), "the reply's command ran");

    person.answer = { action: "decline" };
    const third = await call("openoxide-reply", { thread_id: thread, prompt: "run `touch declined.txt`" });
    assert.equal(third.result.structuredContent.status, "completed");
    assert.equal(person.questions.length, 3);
    assert.ok(!existsSync(join(directory, "declined.txt")), "the declined command did not run");
    assert.deepEqual(third.result.structuredContent.denials.map((denial) => denial.reason), ["declined"]);

    person.answer = { action: "accept", content: { decision: "approve" } };
    const slow = new SlowCommand(directory);
    const impatience = new AbortController();
    const options = timeout ? { timeout } : { signal: impatience.signal };
    const givenUp = assert.rejects(call("openoxide-reply", { thread_id: thread, prompt: slow.prompt }, options));
    await slow.untilStarted();
    impatience.abort();
    await givenUp;
    if (timeout) {
      // Nobody wished the turn to end; it goes on until somebody does.
      const left = await call("openoxide-reply", { thread_id: thread, interrupt: true });
      assert.equal(left.result.structuredContent.status, "interrupted");
    }
    await slow.untilDead();
    const after = await call("openoxide-reply", { thread_id: thread, prompt: "run `touch after.txt`" });
    assert.equal(after.result.structuredContent.status, "completed");
    assert.ok(existsSync(join(directory, "after.txt")), "the thread goes on after a cancelled call");

    // What a client with a wall does: the call answers before it, and the turn goes on until it is interrupted.
    const lasting = new SlowCommand(directory);
    const early = await call("openoxide-reply", { thread_id: thread, prompt: lasting.prompt, wait_seconds: 2 });
    assert.equal(early.result.structuredContent.status, "running");
    await lasting.untilStarted();
    const stopped = await call("openoxide-reply", { thread_id: thread, interrupt: true });
    assert.equal(stopped.result.structuredContent.status, "interrupted");
    await lasting.untilDead();

    const wrong = await call("openoxide", { prompt: "run `touch wrong.txt`", cwd: directory, sandbox: "everything" });
    assert.ok(wrong.result.isError && !wrong.result.structuredContent, JSON.stringify(wrong.result));
    assert.match(wrong.result.content[0].text, /sandbox.*workspace-write/s);
    assert.ok(!existsSync(join(directory, "wrong.txt")), "a call with a wrong argument does nothing");
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  const givenUp = timeout ? "a time-out" : "a cancel";
  console.error(`ok: ${label}: tools, a turn with an approval, a reply, a denial, ${givenUp}, a short wait, an error`);
}
