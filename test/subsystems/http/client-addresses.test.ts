import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClientAddresses } from '../../../subsystems/http/client-addresses.ts';

const TRUSTED = [
  { address: '127.0.0.1', prefix: 32 },
  { address: '10.0.0.0', prefix: 8 },
  { address: '2001:db8::', prefix: 32 },
];
const clients = new ClientAddresses(TRUSTED);

function clientOf(remoteAddress: string | undefined, headers: Record<string, string>, from = clients): string {
  return from.of({ headers, socket: { remoteAddress } });
}

test('without trusted proxies, and from a stranger, headers say nothing', () => {
  const nobody = new ClientAddresses([]);
  assert.equal(clientOf('127.0.0.1', { 'x-forwarded-for': '203.0.113.9' }, nobody), '127.0.0.1');
  assert.equal(clientOf('192.0.2.1', { 'x-forwarded-for': '203.0.113.9', forwarded: 'for=203.0.113.9' }), '192.0.2.1');
  assert.equal(clientOf(undefined, {}), '');
});

const LISTS: readonly (readonly [list: string, client: string])[] = [
  ['203.0.113.9', '203.0.113.9'],
  // Behind what the client has invented stands what the proxies have added.
  ['1.1.1.1, 203.0.113.9', '203.0.113.9'],
  ['1.1.1.1,203.0.113.9,10.1.2.3', '203.0.113.9'],
  ['10.9.9.9, 203.0.113.9, 10.1.2.3, 127.0.0.1', '203.0.113.9'],
  ['203.0.113.9:4711', '203.0.113.9'],
  ['2001:DB9::7', '2001:db9::7'],
  ['[2001:db9::7]:4711, 2001:db8::1', '2001:db9::7'],
  ['::ffff:203.0.113.9, ::ffff:10.1.2.3', '203.0.113.9'],
  // A client inside of the trusted networks.
  ['10.1.2.3', '10.1.2.3'],
  ['10.5.5.5, 10.1.2.3', '10.5.5.5'],
  // Nobody knows who wrote what stands in front of an entry that is no address.
  ['203.0.113.9, unknown', '127.0.0.1'],
  ['203.0.113.9, unknown, 10.1.2.3', '10.1.2.3'],
  ['203.0.113.9, <script>', '127.0.0.1'],
  ['203.0.113.9,', '127.0.0.1'],
  ['', '127.0.0.1'],
  ['999.1.1.1', '127.0.0.1'],
];

for (const [list, client] of LISTS)
  test(`X-Forwarded-For: ${list}`, () => {
    assert.equal(clientOf('127.0.0.1', { 'x-forwarded-for': list }), client);
    assert.equal(clientOf('::ffff:127.0.0.1', { 'x-forwarded-for': list }), client, 'a listener on all addresses');
  });

const FIELDS: readonly (readonly [fields: string, client: string])[] = [
  ['for=203.0.113.9', '203.0.113.9'],
  ['For="203.0.113.9:4711";proto=https;by=10.0.0.1', '203.0.113.9'],
  ['for=1.1.1.1, proto=https;for=203.0.113.9, for=10.1.2.3', '203.0.113.9'],
  ['for="[2001:db9::7]:4711"', '2001:db9::7'],
  ['for="[2001:db9::7]";host="a,b;for=9.9.9.9"', '2001:db9::7'],
  ['for=1.1.1.1;host="\\", for=9.9.9.9", for=203.0.113.9', '203.0.113.9'],
  ['for=203.0.113.9, for=unknown', '127.0.0.1'],
  ['for=203.0.113.9, for=_hidden, for=10.1.2.3', '10.1.2.3'],
  ['for=203.0.113.9, proto=https', '127.0.0.1'],
  ['for="203.0.113.9', '203.0.113.9'],
  ['"', '127.0.0.1'],
];

for (const [fields, client] of FIELDS)
  test(`Forwarded: ${fields}`, () => assert.equal(clientOf('127.0.0.1', { forwarded: fields }), client));

test('where both headers name another client, neither is believed', () => {
  const both = (list: string, fields: string) => clientOf('127.0.0.1', { 'x-forwarded-for': list, forwarded: fields });
  assert.equal(both('203.0.113.9', 'for=203.0.113.9'), '203.0.113.9');
  assert.equal(both('203.0.113.9', 'for=1.1.1.1'), '127.0.0.1');
  assert.equal(both('1.1.1.1', 'for=203.0.113.9'), '127.0.0.1');
});

test('a header as large as headers may be is read at once', () => {
  for (const piece of ['1.1.1.1,', '"', ',', 'for=1.1.1.1;', '\\"']) {
    const text = piece.repeat(Math.floor(16_000 / piece.length));
    const startedMs = performance.now();
    clientOf('127.0.0.1', { forwarded: text });
    clientOf('127.0.0.1', { 'x-forwarded-for': text });
    assert.ok(performance.now() - startedMs < 500, piece);
  }
});
