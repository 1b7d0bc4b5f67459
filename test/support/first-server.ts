/** A program: a durable server that installs an actor, calls it, and stops; `global-setup.ts` has the reason. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { compileCounter } from './motoko.ts';
import { startServer } from './server.ts';
import { temporaryDirectory } from './temporary-directory.ts';

const ends: (() => Promise<void>)[] = [];
const state = join(await temporaryDirectory(), 'state');
const server = await startServer(
  { after: (end) => void ends.push(end) },
  { manifest: '{"actors":{}}', args: ['--state', state] },
);
assert.equal((await server.post('/install/counter', await compileCounter())).status, 200);
assert.equal((await server.post('/call-json/counter/inc')).body, '[1]');
assert.equal((await server.post('/query-json/counter/get')).body, '[1]');
assert.equal(await server.stop(), 0);
for (const end of ends) await end();
