/** The interface of a server that was told nothing of it: it is there, and costs nothing before somebody asks. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Worker } from 'node:worker_threads';
import { ReadableBackup } from '../../../subsystems/storage/backup-file.ts';
import { META, metaKey } from '../../../subsystems/storage/keyspace.ts';
import { type InProcessServer, startInProcess } from '../../support/in-process-server.ts';
import { compileMotoko } from '../../support/motoko.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { FIRST_ID, FIRST_TEXT, startWithActor } from './actor.ts';
import { contentOf, envelopeOf, rootKeyOf, send } from './raw-agent.ts';

const CALL = `/api/v4/canister/${FIRST_TEXT}/call`;
const SITE = `
import Text "mo:core/Text";
persistent actor {
  type Request = { method : Text; url : Text; headers : [(Text, Text)]; body : Blob };
  type Response = { status_code : Nat16; headers : [(Text, Text)]; body : Blob; upgrade : ?Bool };
  public query func http_request({ url } : Request) : async Response {
    { status_code = 200; headers = []; body = Text.encodeUtf8("the website's " # url); upgrade = null };
  };
}`;

/** Returns the names of threads that begin from now on. */
function threadsOf(t: TestContext): () => readonly string[] {
  const threads: Worker[] = [];
  const note = (thread: Worker): void => void threads.push(thread);
  process.on('worker', note);
  t.after(() => process.off('worker', note));
  return () => threads.map(({ threadName }) => threadName ?? '');
}

/** Resolves with true if the host's secret is among the rows that a backup has. */
async function hasSecret(server: InProcessServer): Promise<boolean> {
  const file = join(await temporaryDirectory(), 'state.backup');
  const backup = await server.fetch('/backup');
  assert.equal(backup.status, 200);
  await writeFile(file, new Uint8Array(await backup.arrayBuffer()));
  const secret = metaKey(META.certification);
  let [rows, isThere] = [0, false];
  for await (const changes of new ReadableBackup(file).changes())
    for (const { family, key } of changes) {
      rows++;
      isThere ||= family === 'meta' && Buffer.compare(key, secret) === 0;
    }
  assert.ok(rows > 0);
  return isThere;
}

test('keys and the thread are made at the first request, and not before', async (t) => {
  const threads = threadsOf(t);
  const server = await startWithActor(t, ['--state', await temporaryDirectory()]);
  assert.equal((await server.post('/call-json/it/inc')).body, '[1]');
  assert.equal((await server.get('/api/v2/other')).status, 404);
  assert.equal(await hasSecret(server), false);
  assert.ok(!threads().includes('certification'), threads().join());
  const answer = await send(server, CALL, envelopeOf(contentOf('call', FIRST_ID, 'inc')));
  assert.equal(answer.cbor?.get('status'), 'replied');
  assert.equal(await hasSecret(server), true);
  assert.equal(threads().filter((name) => name === 'certification').length, 1);
});

test('without a token everybody who reaches the server may ask, with one nobody who has none', async (t) => {
  const server = await startWithActor(t, ['--browser-guard']);
  assert.equal((await rootKeyOf(server)).length, 133);
  const page = { origin: 'https://elsewhere.example', 'sec-fetch-site': 'cross-site' };
  assert.equal((await server.get('/api/v2/status', page)).status, 403);
  const asked = await startInProcess(t, { args: ['--auth-token', 'secret'] });
  assert.equal((await asked.get('/api/v2/status')).status, 401);
  assert.equal((await asked.get('/api/v2/status', { authorization: 'Bearer secret' })).status, 200);
});

test('the paths are those of the website at the root, unless the flag asks for them', async (t) => {
  const { wasm } = await compileMotoko(SITE);
  const asked = async (args: readonly string[]): Promise<string> => {
    const server = await startInProcess(t, { args: ['--web', 'it', ...args] });
    assert.equal((await server.post('/install/it', wasm)).status, 200);
    const { status, body } = await server.get('/api/v2/status');
    assert.equal(status, 200);
    return body;
  };
  assert.equal(await asked([]), "the website's /api/v2/status");
  assert.equal(await asked(['--agents', 'off']), "the website's /api/v2/status");
  assert.match(await asked(['--agents', 'guarded']), /root_key/);
});
