// Plays a host: embeds the page in a sandboxed frame, speaks the host's side, and checks what comes back.
'use strict';

const query = new URLSearchParams(location.search);
const verdict = [];
const check = (what, held, detail) => verdict.push([what, Boolean(held), detail ?? null]);
const equal = (what, one, other) => check(what, JSON.stringify(one) === JSON.stringify(other), [one, other]);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
async function until(holds) {
  for (let round = 0; round < 60; round++) {
    const held = await holds();
    if (held) return held;
    await sleep(50);
  }
  return undefined;
}

const ALL_CAPABILITIES = { openLinks: {}, serverTools: {}, serverResources: {}, logging: {}, message: { text: {} } };

class View {
  constructor({ theme = 'light', capabilities = ALL_CAPABILITIES, width = 900, styles, answers = {} }) {
    Object.assign(this, { theme, capabilities, styles, answers, log: [], probes: new Map(), lastId: 0 });
    this.frame = document.createElement('iframe');
    this.frame.setAttribute('sandbox', 'allow-scripts');
    this.frame.style.width = width + 'px';
    this.frame.src = '/view.html';
    window.addEventListener('message', (event) => { if (event.source === this.frame.contentWindow) this.hear(event.data); });
    document.body.append(this.frame);
  }
  hear(message) {
    if (message && message.probed !== undefined) {
      this.probes.get(message.probed)(message.answer);
      return;
    }
    this.log.push(message);
    if (message.method === 'ui/notifications/size-changed') this.frame.style.height = message.params.height + 'px';
    if (message.method === undefined || message.id === undefined) return;
    const answer = (this.answers[message.method] || (() => ({ error: { code: -32601, message: 'unknown' } })))(message.params);
    if (message.method === 'ui/initialize') return;
    setTimeout(() => this.say({ jsonrpc: '2.0', id: message.id, ...answer }), 10);
  }
  say(message) { this.frame.contentWindow.postMessage(message, '*'); }
  tell(method, params) { this.say({ jsonrpc: '2.0', method, params }); }
  probe(verb, ...given) {
    const id = ++this.lastId;
    this.say({ probe: { id, verb, given } });
    return new Promise((done) => this.probes.set(id, done));
  }
  sent(method) { return this.log.filter((message) => message && message.method === method); }
  reply(id) { return until(() => this.log.find((message) => message && message.id === id && message.method === undefined)); }
  async shake() {
    const [first] = await until(() => this.sent('ui/initialize').length && this.sent('ui/initialize')) || [];
    if (!first) return;
    this.first = first;
    // Whatever comes before the host has answered comes too early.
    await sleep(150);
    this.early = this.log.length;
    this.say({ jsonrpc: '2.0', id: first.id, result: {
      protocolVersion: '2026-01-26',
      hostInfo: { name: 'test-host', version: '1' },
      hostCapabilities: this.capabilities,
      hostContext: { theme: this.theme, styles: this.styles, displayMode: 'inline', availableDisplayModes: ['inline'] },
    } });
    await until(() => this.sent('ui/notifications/initialized').length);
  }
  async result(params) {
    this.tell('ui/notifications/tool-result', params);
    await until(async () => (await this.probe('texts', '#status'))[0] !== 'working');
  }
}

const transcriptOf = (text) => (params) => ({ result: { contents: [{ uri: params.uri, mimeType: 'text/plain', text }] } });
const copy = (value) => JSON.parse(JSON.stringify(value));

async function theWholeConversation(results) {
  const view = new View({ answers: { 'resources/read': transcriptOf(results.transcript), 'ui/message': () => ({ result: {} }) } });
  await view.shake();
  const { first } = view;
  check('the view begins with ui/initialize', first && view.log[0] === first && first.jsonrpc === '2.0' && first.id !== undefined, view.log[0]);
  equal('ui/initialize names the protocol', first && first.params.protocolVersion, '2026-01-26');
  check('ui/initialize names the view', first && first.params.appInfo.name && first.params.appInfo.version, first && first.params);
  equal('ui/initialize tells the ways to be shown', first && first.params.appCapabilities.availableDisplayModes, ['inline', 'fullscreen']);
  equal('nothing is sent before the host answers', view.early, 1);
  const next = view.log[1] || {};
  check('then comes ui/notifications/initialized', next.method === 'ui/notifications/initialized' && next.id === undefined, next);

  view.tell('ui/notifications/tool-input-partial', { arguments: { prompt: 'mend' } });
  view.tell('ui/notifications/tool-input', { arguments: { prompt: 'mend the parser' } });
  check('the task is shown while the turn runs', await until(async () => (await view.probe('seen', '#said')).join().includes('mend the parser')));

  await until(() => view.sent('ui/notifications/size-changed').length);
  await view.result(results.rich);
  equal('the status is shown', await view.probe('seen', '#status'), ['completed']);
  const facts = (await view.probe('seen', '#facts div')).join('; ');
  for (const part of ['1 min 23 s', '48,210 in (40,000 cached), 1,874 out', '96,420 in', 'offline', '/srv/project', '01a1fcfa-fd8b-72ed-8177-cec60d941346']) {
    check(`the facts have ${part}`, facts.includes(part), facts);
  }
  check('the message is shown', (await view.probe('seen', '#said p'))[0] === results.rich.structuredContent.content);
  check('denials are shown', (await view.probe('seen', '#denied li')).join() === 'cargo publish timed out');
  equal('the changed files are listed', await view.probe('seen', '#list .path'),
    ['src/parse.rs', 'tests/blank.rs', 'docs/new name.md', 'notes.sql', 'logo.png']);
  equal('with their kinds', await view.probe('seen', '#list .kind'), ['changed', 'added', 'moved', 'deleted', 'changed']);
  equal('and their counts', await view.probe('seen', '#list .count'), ['+5 -5', '+4 -0', '+1 -1', '+0 -2', '+0 -0']);
  check('a removed line that looks like a header stays a line', (await view.probe('seen', '.del')).includes('--- drop the table') ||
    (await view.probe('seen', 'td.del')).includes('--- drop the table'), await view.probe('seen', 'td.del'));
  check('the note on a cut diff is shown', (await view.probe('seen', '#rest')).join().includes('[cut: the diff has 90000 bytes'));
  check('characters that reorder others are named', (await view.probe('seen', '.file .odd')).includes('U+202E'));
  const numbers = await view.probe('seen', '.file:first-child tr:nth-child(3) td');
  equal('removed lines have their old number', numbers.slice(0, 3), ['12', '', '-        if line.is_empty() {']);

  check('the commands are read through the host', view.sent('resources/read').some(({ params }) =>
    params.uri === 'openoxide://threads/01a1fcfa-fd8b-72ed-8177-cec60d941346'));
  await until(async () => (await view.probe('seen', '#commands summary')).length);
  equal('the commands of the turn are shown, and earlier ones apart', await view.probe('seen', '#commands .panel > details > summary'),
    ['cargo test exit 101', '\\U0011ffff exit 127', 'cat <<E\ntwo\nE exit 0', '<img src=x onerror=window.pwned=1> exit 0',
      '1 in earlier turns']);
  const output = (await view.probe('texts', '#commands pre'))[0];
  check('with their output, all lines of it', output.includes("it's U+202E broken\n\tlast line"), output);
  equal('all of them could be read', await view.probe('seen', '#unshown li'), []);

  const sides = async () => (await view.probe('texts', '.file:first-child thead th')).join();
  equal('the filter and the toggle are there', [(await view.probe('seen', '#filter')).length, await view.probe('seen', '#side')], [1, ['Side by side']]);
  equal('the diff begins unified', await sides(), 'Old line,New line,Text');
  await view.probe('click', '#side');
  equal('the toggle shows it side by side', await sides(), 'Old line,Before,New line,After');
  equal('and says so', await view.probe('attribute', '#side', 'aria-pressed'), ['true']);
  equal('what was replaced stands beside its replacement', (await view.probe('texts', '.file:first-child tr:nth-child(3) td')).slice(0, 4),
    ['12', '-        if line.is_empty() {', '12', "+        let line = line.strip_suffix('\\r').unwrap_or(line);"]);
  await view.probe('click', '#side');
  equal('and back', await sides(), 'Old line,New line,Text');

  await view.probe('type', '#filter', 'BLANK');
  equal('the filter leaves the files that fit', await view.probe('seen', '.file h3'), ['tests/blank.rs']);
  equal('in the list too', await view.probe('seen', '#list .path'), ['tests/blank.rs']);
  await view.probe('type', '#filter', '');
  equal('and gives the others back', (await view.probe('seen', '.file h3')).length, 5);

  await view.probe('click', '.file h3 button');
  equal('a file can be collapsed', (await view.probe('seen', '.file:first-child .diff')).length, 0);
  equal('and says so', (await view.probe('attribute', '.file h3 button', 'aria-expanded'))[0], 'false');
  await view.probe('click', '#list button');
  equal('the list opens it again', (await view.probe('seen', '.file:first-child .diff')).length, 1);
  await view.probe('click', '.file:first-child .at button');
  equal('a hunk can be collapsed', (await view.probe('seen', '.file:first-child .add')).join().includes('shrink_to_fit'), false);
  await view.probe('click', '.file:first-child .at button');
  await view.probe('click', '.file:nth-child(2) input');
  check('a file can be marked as reviewed', (await view.probe('seen', '#progress'))[0].startsWith('1 of 5 reviewed'));
  equal('which closes it', (await view.probe('seen', '.file:nth-child(2) .diff')).length, 0);
  await view.probe('click', '#side');
  await view.probe('click', '#side');
  check('and is kept when the diff is drawn anew', (await view.probe('seen', '#list li:nth-child(2)'))[0].includes('reviewed'));
  equal('arrow keys move between lines', await view.probe('key', '.file:first-child .n button[tabindex="0"]', 'ArrowDown'), 'Quote line 11');
  equal('one line of a file is in the order of the tab key', (await view.probe('texts', '.file:first-child .n button[tabindex="0"]')).length, 1);

  equal('nothing can be sent before something is asked', await view.probe('disabled', '#send'), true);
  await view.probe('click', '.file:first-child td.del button');
  check('a selected line is named', (await view.probe('seen', '#quotes li')).join().includes('src/parse.rs, removed line 12'));
  await view.probe('type', '#words', 'keep this check');
  const preview = await view.probe('texts', '#preview');
  await view.probe('click', '#send');
  await until(() => view.sent('ui/message').length);
  const asked = (view.sent('ui/message')[0] || {}).params || {};
  equal('the follow-up is of the user', asked.role, 'user');
  check('and one text block', Array.isArray(asked.content) && asked.content.length === 1 && asked.content[0].type === 'text', asked);
  const text = ((asked.content || [])[0] || {}).text || '';
  check('it quotes file, line and text', text.includes('src/parse.rs, removed line 12:\n> ') && text.includes('if line.is_empty()'), text);
  check('it has what was asked, and the thread', text.includes('keep this check') && text.includes('01a1fcfa-fd8b-72ed-8177-cec60d941346'), text);
  equal('it was shown before it was sent', preview, [text]);
  check('the view says that it was sent', await until(async () => (await view.probe('seen', '#sent'))[0] === 'Sent'));
  equal('and empties the box', await view.probe('value', '#words'), '');

  const sizes = view.sent('ui/notifications/size-changed');
  check('the size is told', sizes.length && sizes.every(({ params }) => params.width > 0 && params.height > 0), sizes);
  check('it grows with what is shown', sizes.length > 1 && Math.max(...sizes.map(({ params }) => params.height)) > sizes[0].params.height + 300, sizes);
  await sleep(300);
  const settled = view.sent('ui/notifications/size-changed').length;
  await sleep(300);
  equal('and comes to rest', view.sent('ui/notifications/size-changed').length, settled);

  equal('the theme of the host is used', await view.probe('style', 'body', 'background-color'), ['rgb(255, 255, 255)']);
  view.tell('ui/notifications/host-context-changed', { theme: 'dark' });
  check('and its change followed', await until(async () => (await view.probe('style', 'body', 'background-color'))[0] === 'rgb(22, 24, 29)'));
  view.tell('ui/notifications/host-context-changed', { styles: { variables: { '--color-background-primary': 'rgb(1, 2, 3)', '--color-text-primary': 'url(/stray)' } } });
  check('the colours of the host are used', await until(async () => (await view.probe('style', 'body', 'background-color'))[0] === 'rgb(1, 2, 3)'));
  equal('everything that can be operated has a name', await view.probe('unnamed'), 0);

  view.say({ jsonrpc: '2.0', id: 'p', method: 'ping' });
  equal('a ping is answered', ((await view.reply('p')) || {}).result, {});
  view.say({ jsonrpc: '2.0', id: 0, method: 'ui/nonsense', params: {} });
  equal('an unknown request is refused', (((await view.reply(0)) || {}).error || {}).code, -32601);
  view.say({ jsonrpc: '2.0', id: 77, method: 'ui/resource-teardown', params: { reason: 'closed' } });
  equal('the teardown is answered', ((await view.reply(77)) || {}).result, {});
  check('every message is JSON-RPC 2.0', view.log.every((message) => message.jsonrpc === '2.0'));
  equal('no error, no forbidden request', await view.probe('trouble'), []);
  view.frame.remove();
}

async function theRecordedResult(results) {
  const view = new View({});
  await view.shake();
  await view.result(results.recorded);
  equal('a recorded result: files given by name alone', await view.probe('seen', '#list .path'), ['hello.txt']);
  equal('a recorded result: kind and counts from the diff', await view.probe('seen', '#list li'), ['hello.txtadded+1 -0']);
  equal('a recorded result: no commands where the host has no transcript', await view.probe('seen', '#commands'), []);
  equal('a recorded result: and says so', await view.probe('seen', '#unshown li'), ['The commands could not be read.']);
  const quiet = copy(results.recorded);
  Object.assign(quiet.structuredContent, { filesChanged: [], diff: undefined, content: 'nothing to do' });
  await view.result(quiet);
  check('a turn that changed nothing says so', await until(async () => (await view.probe('seen', '#progress'))[0] === 'No file was changed.'));
  view.tell('ui/notifications/tool-result', { content: [{ type: 'text', text: 'no such thread' }], isError: true });
  check('an error without a thread is shown', await until(async () => (await view.probe('seen', '#said p'))[0] === 'no such thread'));
  equal('as failed', await view.probe('seen', '#status'), ['failed']);
  view.tell('ui/notifications/tool-cancelled', { reason: 'by the person' });
  check('a cancelled call is shown', await until(async () => (await view.probe('seen', '#status'))[0] === 'cancelled'));
  equal('no error with the recorded result', await view.probe('trouble'), []);
  view.frame.remove();
}

async function hostileText(results) {
  const payload = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</' + 'script><svg onload="window.pwned=1">';
  const view = new View({ answers: { 'resources/read': transcriptOf(results.transcript) } });
  await view.shake();
  view.tell('ui/notifications/tool-input', { arguments: { prompt: payload } });
  const hostile = copy(results.rich);
  Object.assign(hostile.structuredContent, {
    content: payload, cwd: payload, binaryFiles: [payload],
    denials: [{ what: payload, reason: payload }],
    filesChanged: [{ path: payload, kind: payload }, payload + '2'],
    diff: `diff --git a/${payload} b/${payload}\n--- a/${payload}\n+++ b/${payload}\n@@ -1,2 +1,2 @@ ${payload}\n-${payload}\n+${payload} \n ${payload}\n${payload}\n`,
  });
  hostile._meta['openoxide/turn'].model = payload;
  await view.result(hostile);
  await until(async () => (await view.probe('seen', '#commands summary')).length);
  await view.probe('click', '#side');
  await view.probe('click', '.n button');
  await view.probe('type', '#words', payload);
  await sleep(200);
  const page = (await view.probe('seen', 'main')).join();
  check('hostile text is shown as text', page.split('<script>window.pwned=1</script>').length > 10, page.length);
  equal('and makes no elements', (await view.probe('texts', 'main img, main script, main svg')).length, 0);
  equal('hostile text runs nothing and requests nothing', await view.probe('trouble'), []);
  view.frame.remove();
}

async function malformedMessages(results) {
  const view = new View({ answers: { 'resources/read': transcriptOf('') } });
  await view.shake();
  const rpc = (rest) => ({ jsonrpc: '2.0', ...rest });
  const odd = [null, undefined, 5, 'text', [], [rpc({ method: 'ping', id: 1 })], {}, { jsonrpc: '1.0', method: 'ui/notifications/tool-result' },
    rpc({}), rpc({ id: null }), rpc({ id: 999, result: {} }), rpc({ id: 1 }), rpc({ id: 1, error: null }), rpc({ method: 5, id: {} }),
    ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'ui/notifications/nothing'].flatMap((method) => [rpc({ method }), rpc({ method, params: null })])];
  for (const method of ['tool-input', 'tool-input-partial', 'tool-cancelled', 'host-context-changed']) {
    for (const params of [null, 5, 'text', [], { arguments: 5 }, { arguments: { prompt: {} } }, { reason: [] }, { theme: 7, styles: 'x' },
      { styles: { variables: [] } }, { styles: { variables: { '--a': 5, color: 'red', '--b': null } } }]) odd.push(rpc({ method: 'ui/notifications/' + method, params }));
  }
  for (const message of odd) view.say(message);
  const another = { method: 'ui/notifications/tool-result', params: { content: [{ type: 'text', text: 'another protocol' }] } };
  view.say(another);
  view.say({ jsonrpc: '1.0', ...another });
  await sleep(100);
  check('messages that are not JSON-RPC 2.0 are left out', !(await view.probe('texts', '#said p')).join().includes('another protocol'));
  for (const method of ['__proto__', 'constructor', 'toString']) {
    view.say(rpc({ id: 'odd ' + method, method }));
    equal(`a request for ${method} is refused`, (((await view.reply('odd ' + method)) || {}).error || {}).code, -32601);
  }
  const sound = results.recorded.structuredContent;
  const wrong = [5, null, 'x', [], [null, 5, 'x', [], {}], { a: 1 }, true, '__proto__'];
  const fields = ['content', 'status', 'cwd', 'filesChanged', 'binaryFiles', 'denials', 'diff'];
  const strange = wrong.flatMap((value) => fields.map((field) => ({ ...sound, [field]: value })));
  const odds = wrong.flatMap((value) => ['turnId', 'model', 'usage', 'threadUsage', 'durationMs'].map((field) => ({ 'openoxide/turn': { [field]: value } })));
  const metas = [...wrong, ...wrong.map((value) => ({ 'openoxide/turn': value })), ...odds];
  for (const diff of ['@@ -1 +1 @@\n+x', '@@ -1,99999 +1,99999 @@\n x\ndiff --git', 'diff --git \n--- \n+++ \n@@', '--- a/x\n', '+++ b/x\n@@ -0,0 +1 @@\n+x\n',
    'diff --git "a/\\303\\244\\"" "b/\\303\\244\\""\nnew file mode 100644\n', '\\ No newline\n', '\n\n\n', 'diff --git a/x b/x\n@@ -1 +1 @@\n\\ No newline at end of file\n']) strange.push({ ...sound, diff });
  strange.push({ ...sound, filesChanged: [{ path: {}, kind: 'add' }, { path: 'x', kind: '__proto__', moveTo: 5 }, { path: 'x', moveTo: 'x' }] });
  const unread = [];
  const given = [...strange.map((structuredContent) => ({ structuredContent })), ...metas.map((_meta) => ({ structuredContent: sound, _meta }))];
  for (const one of given) {
    const before = view.sent('resources/read').length;
    view.tell('ui/notifications/tool-result', { content: [null, 5, { type: 'text' }, { text: {} }], ...one });
    // Reading the transcript is the last thing that is done with a result.
    if (!await until(() => view.sent('resources/read').length > before)) unread.push(one);
    if (unread.length > 3) break;
  }
  equal('results of wrong types are shown as far as they go', unread, []);
  for (const params of [null, 5, {}, { content: 'x' }, { structuredContent: [] }, { structuredContent: 5, content: {} }]) view.tell('ui/notifications/tool-result', params);
  await view.result(results.rich);
  check('a sound result after malformed ones is shown', await until(async () => (await view.probe('seen', '#list li')).length === 5));

  const other = document.createElement('iframe');
  other.setAttribute('sandbox', 'allow-scripts');
  const forged = JSON.stringify(rpc({ method: 'ui/notifications/tool-result', params: { structuredContent: { content: 'forged' } } }));
  other.srcdoc = `<script>parent.frames[0].postMessage(${forged}, '*')</` + 'script>';
  document.body.append(other);
  await new Promise((done) => { other.onload = done; });
  await sleep(300);
  check('only the host is heard', !(await view.probe('seen', '#said p')).join().includes('forged'));
  other.remove();
  equal('malformed messages make no error', await view.probe('trouble'), []);
  view.frame.remove();
}

async function lesserHosts(results) {
  const plain = new View({ capabilities: { logging: {} } });
  await plain.shake();
  await plain.result(results.rich);
  await sleep(200);
  equal('without messages in the host there is no box for them', await plain.probe('seen', '#talk'), []);
  equal('without resources in the host none is read', plain.sent('resources/read').length, 0);
  equal('and the page says so', await plain.probe('seen', '#unshown li'),
    ['The commands are not shown: the host does not let this page read the thread.']);
  equal('the changes are shown all the same', (await plain.probe('seen', '.file')).length, 5);
  equal('a lesser host gives no error', await plain.probe('trouble'), []);
  plain.frame.remove();

  const older = new View({ answers: { 'ui/message': ({ content }) => (Array.isArray(content) ? { error: { code: -32602, message: 'bad' } } : { result: {} }) } });
  await older.shake();
  await older.result(results.recorded);
  await older.probe('type', '#words', 'again');
  await older.probe('click', '#send');
  check('a host that wants one block gets one', await until(async () => (await older.probe('seen', '#sent'))[0] === 'Sent'), older.sent('ui/message'));
  older.answers['ui/message'] = () => ({ result: { isError: true } });
  await older.probe('type', '#words', 'once more');
  await older.probe('click', '#send');
  check('a refused message is told', await until(async () => (await older.probe('seen', '#sent'))[0].includes('did not take')));
  equal('and its words are kept', await older.probe('value', '#words'), 'once more');
  older.frame.remove();

  const narrow = new View({ width: 320, answers: { 'resources/read': transcriptOf(results.transcript) } });
  await narrow.shake();
  await narrow.result(results.rich);
  await sleep(300);
  equal('at 320 pixels nothing is wider than the page', await narrow.probe('overflow'), 0);
  equal('nor a cell wider than its column', await narrow.probe('cut', '.diff td'), []);
  await narrow.probe('click', '#side');
  equal('nor side by side', [await narrow.probe('overflow'), await narrow.probe('cut', '.diff td')], [0, []]);
  narrow.frame.remove();
}

async function show(results) {
  const view = new View({ theme: query.get('show'), width: Number(query.get('width')) || window.innerWidth,
    answers: { 'resources/read': transcriptOf(results.transcript) } });
  await view.shake();
  await view.result(results.rich);
  if (query.get('side')) await view.probe('click', '#side');
  await view.probe('click', '.file:first-child td.del button');
  await view.probe('click', '.file:nth-child(3) input');
  await view.probe('type', '#words', 'Keep the check for an empty line.');
  await sleep(500);
  await fetch('/verdict', { method: 'POST', body: '[]' });
}

async function main() {
  if (query.get('show')) document.head.append(Object.assign(document.createElement('script'), { src: '/shown' }));
  const results = await (await fetch('/results.json')).json();
  if (query.get('show')) return show(results);
  for (const scene of [theWholeConversation, theRecordedResult, hostileText, malformedMessages, lesserHosts]) {
    try { await scene(results); } catch (error) { check(scene.name, false, String(error.stack)); }
    document.querySelectorAll('iframe').forEach((frame) => frame.remove());
  }
  await fetch('/verdict', { method: 'POST', body: JSON.stringify(verdict) });
}
main();
