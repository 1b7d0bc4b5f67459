/** The whole of `--capacity`, with the compiler and the example: test/config/capacity.test.ts has its parts. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const MAIN = resolve(import.meta.dirname, '../../config/svc.js');

interface Figures {
  readonly seconds: number;
  readonly live: { readonly bytes: number };
  readonly durable: { readonly asleep: { readonly bytes: number; readonly diskBytes: number } | null };
  readonly room: { readonly live: number; readonly asleep: number | null };
}

test('this machine is measured within 20 s, and nothing is left of that', { timeout: 300_000 }, async () => {
  const state = await temporaryDirectory();
  const ended = Promise.withResolvers<{ readonly code: unknown; readonly stdout: string }>();
  execFile(process.execPath, [MAIN, '--capacity', '--state', state, '--log-json'], (error, stdout) =>
    ended.resolve({ code: error?.code ?? 0, stdout }),
  );
  const { code, stdout } = await ended.promise;
  const { seconds, live, durable, room } = JSON.parse(stdout) as Figures;
  assert.ok(seconds <= 20, `${seconds} s`);
  assert.ok(live.bytes > 65_536 && room.live > 10, stdout);
  assert.equal(code, durable.asleep === null ? 1 : 0);
  if (durable.asleep !== null) {
    assert.ok(durable.asleep.bytes < live.bytes / 10, stdout);
    assert.ok(room.asleep !== null && room.asleep > room.live && durable.asleep.diskBytes > 1000, stdout);
  }
  assert.deepEqual(await readdir(state), []);
});
