/** Headers that go along from one server to another. */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { requestHeadersOf } from '../../../../subsystems/http/peers/forwarded-headers.ts';

function asked(...raw: readonly string[]): IncomingMessage {
  const headers: Record<string, string> = {};
  for (let at = 0; at + 1 < raw.length; at += 2) headers[(raw[at] ?? '').toLowerCase()] = raw[at + 1] ?? '';
  return { rawHeaders: raw, headers } as unknown as IncomingMessage;
}

test('headers that Connection names stay behind, but a claim of a caller does not', () => {
  const request = asked(
    'Connection',
    'x-caller, x-hop',
    'X-Caller',
    'aaaaa-aa',
    'X-Hop',
    '1',
    'Accept',
    '*/*',
    'Host',
    'a',
  );
  assert.deepEqual(requestHeadersOf(request), ['X-Caller', 'aaaaa-aa', 'Accept', '*/*', 'host', 'a']);
  const secret = asked('Connection', 'keep-alive', 'Authorization', 'Bearer x', 'Keep-Alive', '5', 'Host', 'a');
  assert.deepEqual(requestHeadersOf(secret), ['host', 'a']);
});
