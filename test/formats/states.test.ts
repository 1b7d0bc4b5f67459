/** A state of each format that there was, made by the version that wrote it, opens with this one. */
import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { brotliDecompressSync } from 'node:zlib';
import { FORMAT, OLDEST_FORMAT } from '../../subsystems/storage/format-steps.ts';
import { parsePrincipal } from '../../subsystems/ic/index.ts';
import { contentOf, envelopeOf, rootKeyOf, send } from '../subsystems/agents/raw-agent.ts';
import { unpackDirectory } from '../support/packed-directory.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const STATES = fileURLToPath(new URL('states', import.meta.url));
const OLDER = Array.from({ length: FORMAT - OLDEST_FORMAT }, (_, index) => OLDEST_FORMAT + index);
/** A manifest without actors: the counter is in the state. */
const manifest = '{ "actors": {} }';

async function counts(server: RunningServer, expected: number): Promise<void> {
  const { body } = await server.post('/call-json/counter/inc');
  assert.equal(body, `[${expected}]`);
}

test('there is a state and a backup of each older format', async () => {
  const names = OLDER.flatMap((format) => [`format-${format}.backup`, `format-${format}.state`]);
  assert.deepEqual((await readdir(STATES)).toSorted(), names);
});

async function counterOf(server: RunningServer): Promise<{ readonly principal: string; readonly id: Uint8Array }> {
  const { body } = await server.get('/inspect');
  const [principal = ''] = /(?:[a-z2-7]{5}-){4}[a-z2-7]{3}/.exec(body) ?? [];
  return { principal, id: parsePrincipal(principal) ?? assert.fail(body) };
}

for (const format of OLDER) {
  // 45 calls were acknowledged when the server was killed, the last 25 of them only in the step log.
  test(`a directory of format ${format} is taken over, with what was only in its log`, async (t) => {
    const state = await temporaryDirectory();
    await unpackDirectory(await readFile(join(STATES, `format-${format}.state`)), state);
    const server = await startServer(t, { manifest, args: ['--state', state] });
    assert.ok(server.output.stderr.includes(`was taken over from format ${format} to ${FORMAT}`), server.output.stderr);
    await counts(server, 46);
    await server.kill();
    assert.match(await readFile(join(state, 'format'), 'latin1'), new RegExp(`^svc state, format ${FORMAT}\n`));
    const again = await startServer(t, { manifest, args: ['--state', state] });
    assert.ok(!again.output.stderr.includes('taken over'), again.output.stderr);
    await counts(again, 47);
    // Clients of the Internet Computer find the actor, too, whose state has no key for them yet.
    const { principal, id } = await counterOf(again);
    const call = envelopeOf(contentOf('call', id, 'inc'));
    const answer = await send(again, `/api/v4/canister/${principal}/call`, call);
    assert.equal(answer.cbor?.get('status'), 'replied', answer.text);
    const rootKey = await rootKeyOf(again);
    await again.kill();
    const third = await startServer(t, { manifest, args: ['--state', state] });
    assert.deepEqual(await rootKeyOf(third), rootKey);
    assert.equal((await send(third, `/api/v4/canister/${principal}/call`, call)).cbor?.get('status'), 'replied');
    await counts(third, 49);
  });

  test(`a backup of format ${format} is restored, and its directory taken over`, async (t) => {
    const folder = await temporaryDirectory();
    const file = join(folder, 'old.backup');
    await writeFile(file, brotliDecompressSync(await readFile(join(STATES, `format-${format}.backup`))));
    const args = ['--state', join(folder, 'state'), '--restore', file];
    const server = await startServer(t, { manifest, args });
    assert.ok(server.output.stderr.includes(`was taken over from format ${format} to ${FORMAT}`), server.output.stderr);
    await counts(server, 43);
  });
}
