/** `actors/witness.wat`, and the state that it shows. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { wat } from '../../support/wat.ts';
import type { Host } from '../semantics/host.ts';

export const WITNESS = wat(await readFile(new URL('./actors/witness.wat', import.meta.url), 'utf8'));

/** Returns everything that the witness has written, in hex: its globals, its heap and its stable memory. */
export async function dump(host: Host, name: string): Promise<string> {
  const response = await host.server.fetch(`/query/${name}/dump`, { method: 'POST' });
  assert.equal(response.status, 200);
  return Buffer.from(await response.arrayBuffer()).toString('hex');
}
