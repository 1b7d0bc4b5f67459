/** Calls of agents on a server that is killed: what is certified stays, and what is sent again is executed once. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { hashOfMap } from '../../../subsystems/certification/index.ts';
import { type RunningServer, startServer } from '../../support/server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { compiledActor, FIRST_ID, FIRST_TEXT } from '../../subsystems/agents/actor.ts';
import {
  certified,
  contentOf,
  envelopeOf,
  newSigner,
  readContent,
  rootKeyOf,
  send,
} from '../../subsystems/agents/raw-agent.ts';

const CALL = `/api/v3/canister/${FIRST_TEXT}/call`;
const CALLS = 60;

async function prepared(): Promise<{ readonly manifest: string; readonly args: readonly string[] }> {
  const folder = await temporaryDirectory();
  await writeFile(join(folder, 'it.wasm'), await compiledActor());
  await writeFile(join(folder, 'actors.json'), '{"actors":{"it":{"wasm":"it.wasm"}}}');
  return { manifest: join(folder, 'actors.json'), args: ['--state', join(folder, 'state')] };
}

async function count(server: RunningServer): Promise<number> {
  const [value] = JSON.parse((await server.post('/query-json/it/get')).body) as [number];
  return value;
}

test('a kill among certified calls loses none that was answered, and repeats none', async (t) => {
  const { manifest, args } = await prepared();
  const signer = newSigner();
  const contents = Array.from({ length: CALLS }, () => contentOf('call', FIRST_ID, 'inc', signer.principal));
  const envelopes = contents.map((content) => envelopeOf(content, signer));
  let server = await startServer(t, { manifestFile: manifest, args });
  const rootKey = await rootKeyOf(server);
  // The first of them is answered for certain, and the kill comes with an answer, so that others are under way.
  let [answered, killing] = [0, undefined as Promise<void> | undefined];
  const replies = new Map<number, string>();
  await Promise.all(
    envelopes.map(async (envelope, index) => {
      try {
        const answer = await send(server, CALL, envelope);
        const { status, cbor } = answer;
        if (status !== 200 || cbor?.get('status') !== 'replied') return;
        const says = certified(answer, rootKey);
        replies.set(index, replyText(says(['request_status', hashOfMap(contents[index] ?? new Map()), 'reply'])));
      } catch (error) {
        // The connection was cut by the kill.
        if (killing === undefined) throw error;
      }
      if (++answered === 5) killing = server.kill();
    }),
  );
  await killing;
  assert.ok(replies.size > 0);
  server = await startServer(t, { manifestFile: manifest, args });
  assert.deepEqual(await rootKeyOf(server), rootKey, 'the root key is kept with the state');
  assert.ok((await count(server)) >= replies.size);
  // All of them again: each is executed once, whatever became of it.
  const again = await Promise.all(envelopes.map((envelope) => send(server, CALL, envelope)));
  const seen = new Set<string>();
  for (const [index, answer] of again.entries()) {
    const says = certified(answer, rootKey);
    const reply = replyText(says(['request_status', hashOfMap(contents[index] ?? new Map()), 'reply']));
    assert.equal(reply, replies.get(index) ?? reply, 'the same answer as before the kill');
    seen.add(reply);
  }
  assert.equal(seen.size, CALLS);
  assert.equal(await count(server), CALLS);
  // A status that is asked for after another kill is read from the state.
  await server.kill();
  server = await startServer(t, { manifestFile: manifest, args });
  const requestId = hashOfMap(contents[0] ?? new Map());
  const asked = envelopeOf(readContent([[Buffer.from('request_status'), requestId]], signer.principal), signer);
  const status = await send(server, `/api/v3/canister/${FIRST_TEXT}/read_state`, asked);
  assert.deepEqual(certified(status, rootKey)(['request_status', requestId, 'status']), Buffer.from('replied'));
});

function replyText(reply: unknown): string {
  return Buffer.isBuffer(reply) ? reply.toString('hex') : String(reply);
}
