import assert from 'node:assert/strict';
import type { LookupFunction } from 'node:net';
import { describe, test } from 'node:test';
import { UndiciOutcalls, type UndiciOutcallsOptions } from '../../../subsystems/outcalls/undici-outcalls.ts';
import { describeOutcalls, failureOf, NEVER, requestOf, textOf } from '../../../plugins/api/contracts/outcalls.ts';
import { type Certificate, OUTSIDE_CA, startOutsideServer } from '../../support/outside-server.ts';

interface Owner {
  after(end: () => void): void;
}

function outcallsFor(t: Owner, options: Partial<UndiciOutcallsOptions> = {}): UndiciOutcalls {
  const outcalls = new UndiciOutcalls({ denyPrivate: false, ca: OUTSIDE_CA, ...options });
  t.after(() => outcalls.close());
  return outcalls;
}

describeOutcalls('outcalls over undici', (t) => Promise.resolve(outcallsFor(t)));

test('the ? of an empty query is sent, and none that stands behind a #', async (t) => {
  const server = await startOutsideServer(t);
  const outcalls = outcallsFor(t);
  for (const [written, target] of [
    ['/hello?', '/hello?'],
    ['/hello?#there', '/hello?'],
    ['/hello#?', '/hello'],
    ['?', '/?'],
  ]) {
    await outcalls.send(requestOf(`${server.origin}${written}`), NEVER);
    assert.equal(server.received.at(-1)?.target, target);
  }
});

test('a connection is used again', async (t) => {
  const server = await startOutsideServer(t);
  const outcalls = outcallsFor(t);
  for (let n = 0; n < 5; n++) await outcalls.send(requestOf(`${server.origin}/json/${n}`), NEVER);
  assert.equal(server.connections, 1);
});

test('so many idle connections are kept, of one server fewer', async (t) => {
  const server = await startOutsideServer(t);
  const outcalls = outcallsFor(t);
  await Promise.all(Array.from({ length: 20 }, () => outcalls.send(requestOf(`${server.origin}/hello`), NEVER)));
  assert.equal(server.connections, 20);
  while (server.open > 8) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(server.open, 8);
});

test('a close ends what is under way, and nothing is sent after it', async (t) => {
  const server = await startOutsideServer(t);
  const outcalls = outcallsFor(t);
  const sent = failureOf(outcalls.send(requestOf(`${server.origin}/stall`), NEVER));
  await server.arrived(1);
  outcalls.close();
  assert.equal((await sent).code, 'outcalls-stopping');
  assert.equal((await failureOf(outcalls.send(requestOf(`${server.origin}/hello`), NEVER))).code, 'outcalls-stopping');
  while (server.open > 0) await new Promise((resolve) => setImmediate(resolve));
});

describe('https', () => {
  test('a valid certificate, by name and by address', async (t) => {
    const server = await startOutsideServer(t, { certificate: 'good' });
    const outcalls = outcallsFor(t);
    for (const host of ['localhost', '127.0.0.1']) {
      const response = await outcalls.send(requestOf(`https://${host}:${server.port}/hello`), NEVER);
      assert.equal(textOf(response), 'hello');
    }
  });

  const bad: readonly (readonly [Certificate, RegExp])[] = [
    ['expired', /CERT_HAS_EXPIRED/],
    ['wrong-name', /elsewhere[.]example|ALTNAME/],
    ['self-signed', /NODE_EXTRA_CA_CERTS \(DEPTH_ZERO_SELF_SIGNED_CERT\)/],
  ];
  for (const [certificate, message] of bad) {
    test(`a certificate that is ${certificate} is refused, also the second time and whatever the environment says`, async (t) => {
      const server = await startOutsideServer(t, { certificate });
      const outcalls = outcallsFor(t);
      process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
      t.after(() => delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']);
      for (let time = 0; time < 2; time++) {
        const failure = await failureOf(outcalls.send(requestOf(`${server.origin}/hello`), NEVER));
        assert.equal(failure.code, 'outcall-failed');
        assert.match(failure.message, message);
      }
      assert.equal(server.received.length, 0, 'nothing was sent');
    });
  }

  test('an authority that nobody knows is refused', async (t) => {
    const server = await startOutsideServer(t, { certificate: 'good' });
    const outcalls = outcallsFor(t, { ca: undefined });
    const { code, message } = await failureOf(outcalls.send(requestOf(`${server.origin}/hello`), NEVER));
    assert.equal(code, 'outcall-failed');
    assert.match(message, /certificate|SELF_SIGNED/i);
  });

  test('the name that has to be in the certificate is that of the URL, not that of the header host', async (t) => {
    const server = await startOutsideServer(t, { certificate: 'wrong-name' });
    const outcalls = outcallsFor(t);
    const headers = [{ name: 'host', value: 'elsewhere.example' }];
    for (const host of ['localhost', '127.0.0.1']) {
      const request = requestOf(`https://${host}:${server.port}/hello`, { headers });
      assert.equal((await failureOf(outcalls.send(request, NEVER))).code, 'outcall-failed');
    }
    assert.equal(server.received.length, 0);
  });

  test('a server that speaks no TLS', async (t) => {
    const server = await startOutsideServer(t);
    const { code } = await failureOf(outcallsFor(t).send(requestOf(`https://127.0.0.1:${server.port}/hello`), NEVER));
    assert.equal(code, 'outcall-failed');
  });
});

describe('private addresses denied', () => {
  const resolving =
    (addresses: readonly string[]): LookupFunction =>
    (_hostname, _options, callback) =>
      callback(
        null,
        addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
      );

  test('an address in the URL, however it is written', async (t) => {
    const server = await startOutsideServer(t);
    const outcalls = outcallsFor(t, { denyPrivate: true });
    for (const host of [
      '127.0.0.1',
      '127.1',
      '2130706433',
      '0x7f000001',
      '0177.0.0.1',
      '0',
      '0.0.0.0',
      '[::1]',
      '[::]',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '[64:ff9b::127.0.0.1]',
      '[fe80::1]',
      '169.254.169.254',
      'localhost',
    ]) {
      const { code } = await failureOf(outcalls.send(requestOf(`http://${host}:${server.port}/hello`), NEVER));
      assert.equal(code, 'outcall-refused', host);
    }
    assert.equal(server.connections, 0);
  });

  test('a name that resolves to one, also beside a public one or after one', async (t) => {
    const server = await startOutsideServer(t);
    const url = `http://rebinding.example:${server.port}/hello`;
    const only = outcallsFor(t, { denyPrivate: true, lookup: resolving(['127.0.0.1', '10.0.0.1', '::1']) });
    const { code, message } = await failureOf(only.send(requestOf(url), NEVER));
    assert.equal(code, 'outcall-refused');
    assert.doesNotMatch(message, /127|10[.]/, 'who asks learns nothing about this network');
    const looked: string[] = [];
    const both = outcallsFor(t, {
      denyPrivate: true,
      // The public address is one where nobody can go; it is enough that the request is tried.
      lookup: (hostname, options, callback) => {
        looked.push(hostname);
        resolving(['127.0.0.1', '2001:4860:4860::8888'])(hostname, options, callback);
      },
    });
    const controller = new AbortController();
    setTimeout(() => controller.abort(new Error('given up')), 300).unref();
    await assert.rejects(both.send(requestOf(url), { signal: controller.signal }));
    assert.deepEqual(looked, ['rebinding.example']);
    assert.equal(server.connections, 0);
  });

  test('they are reached where they are not denied', async (t) => {
    const server = await startOutsideServer(t);
    const outcalls = outcallsFor(t, { lookup: resolving(['127.0.0.1']) });
    const response = await outcalls.send(requestOf(`http://anything.example:${server.port}/hello`), NEVER);
    assert.equal(textOf(response), 'hello');
  });
});
