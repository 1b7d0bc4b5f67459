import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { arrived } from '../../support/arrived.ts';
import { RawClient, send } from '../../support/http-client.ts';
import { startHttpHost } from './counter-host.ts';

const MIB = 1024 * 1024;
const head = (target: string, ...headers: string[]): string =>
  [`POST ${target} HTTP/1.1`, 'Host: test', ...headers, '', ''].join('\r\n');

suite('request bodies', () => {
  test('a Content-Length over the cap of the path is 413 before a byte of the body is sent', async (t) => {
    const { origin } = await startHttpHost(t);
    const caps = [
      ['/call/counter/echo', 64 * MIB],
      ['/call-json/counter/echo', 64 * MIB],
      ['/cycles/counter', 64 * MIB],
      ['/nowhere', 64 * MIB],
      ['/install/fresh', 192 * MIB],
      ['/upgrade/counter', 192 * MIB],
      ['/site/counter/x', 8 * MIB],
    ] as const;
    for (const [target, cap] of caps) {
      await using over = new RawClient(origin);
      over.write(head(target, `Content-Length: ${cap + 1}`));
      const answer = await over.ended();
      assert.match(answer, /^HTTP\/1\.1 413 /, target);
      assert.match(answer, new RegExp(`\r\n\r\nthe body is larger than ${cap} bytes`));
      assert.match(answer, /\r\ncontent-type: text\/plain; charset=utf-8\r\n/);
      assert.match(answer, /\r\nsvc-version: 9\.8\.7\r\n/);
      assert.match(answer, /\r\nconnection: close\r\n/i);
    }
    await using within = new RawClient(origin);
    within.write(head('/call/counter/echo', `Content-Length: ${64 * MIB}`));
    await arrived();
    assert.equal(within.received, '');
  });

  test('a client that sends on while it is refused still gets to read the answer', async (t) => {
    const { origin } = await startHttpHost(t);
    await using client = new RawClient(origin);
    client.write(head('/call/counter/echo', `Content-Length: ${65 * MIB}`));
    client.write(new Uint8Array(MIB));
    assert.match(await client.until('the body is larger'), /^HTTP\/1\.1 413 /);
  });

  test('a chunked body is counted as it arrives', async (t) => {
    const { origin } = await startHttpHost(t);
    await using client = new RawClient(origin);
    client.write(head('/call/counter/echo', 'Transfer-Encoding: chunked'));
    const chunk = Buffer.concat([
      Buffer.from(`${(4 * MIB).toString(16)}\r\n`),
      Buffer.alloc(4 * MIB, 1),
      Buffer.from('\r\n'),
    ]);
    for (let sent = 0; sent < 17 && client.received === ''; sent++) {
      client.write(chunk);
      await sleep(1);
    }
    const answer = await client.ended();
    assert.match(answer, /^HTTP\/1\.1 413 [^]*\r\ncontent-type: application\/json; charset=utf-8\r\n/);
    assert.match(answer, /\r\n\r\n\{"code":413,"message":"the body is larger than 67108864 bytes, [^"]+"\}$/);
  });

  test('a chunked body within the cap is read whole', async (t) => {
    const { origin } = await startHttpHost(t);
    await using client = new RawClient(origin);
    client.write(head('/call-json/counter/echo', 'Transfer-Encoding: chunked', 'Connection: close'));
    for (const part of ['[1', ',2,', '3]']) {
      client.write(`${part.length.toString(16)}\r\n${part}\r\n`);
      await sleep(5);
    }
    client.write('0\r\n\r\n');
    assert.match(await client.ended(), /\r\n\r\n\[1,2,3\]$/);
    await using empty = new RawClient(origin);
    empty.write(`${head('/call-json/counter/echo', 'Transfer-Encoding: chunked', 'Connection: close')}0\r\n\r\n`);
    assert.match(await empty.ended(), /\r\n\r\n\[\]$/);
  });

  test('a body may come in any pieces, together with its head or apart', async (t) => {
    const { origin } = await startHttpHost(t);
    await using client = new RawClient(origin);
    const whole = `${head('/call/counter/echo', 'Content-Length: 10')}0123456789`;
    for (let cut = whole.length - 10; cut <= whole.length; cut += 5) {
      client.write(whole.slice(0, cut));
      await sleep(5);
      client.write(whole.slice(cut));
    }
    await client.until('0123456789HTTP/1.1 200 OK');
    for (const byte of whole) {
      client.write(byte);
      await sleep(0);
    }
    const answers = (): number => client.received.split('0123456789').length - 1;
    while (answers() < 4) await sleep(1);
    await arrived();
    assert.equal(answers(), 4);
  });

  test('pipelined requests are answered in order', async (t) => {
    const { origin } = await startHttpHost(t);
    await using client = new RawClient(origin);
    const inc = head('/call/counter/inc', 'Content-Length: 2');
    client.write(`${inc}[]${inc}[]${inc}[]GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    const bodies = (await client.ended()).split('HTTP/1.1 200 OK').map((answer) => answer.split('\r\n\r\n')[1]);
    assert.deepEqual(bodies, [undefined, '[1]', '[2]', '[3]', 'ok']);
  });

  test('Expect: 100-continue is answered only if the body is wanted', async (t) => {
    const { origin } = await startHttpHost(t, { token: 'x' });
    await using wanted = new RawClient(origin);
    wanted.write(head('/call/counter/echo', 'Authorization: Bearer x', 'Content-Length: 3', 'Expect: 100-continue'));
    assert.match(await wanted.until('\r\n\r\n'), /^HTTP\/1\.1 100 Continue\r\n\r\n$/);
    wanted.write('abc');
    assert.match(await wanted.until('abc'), /HTTP\/1\.1 200 OK/);
    await using refused = new RawClient(origin);
    refused.write(head('/call/counter/echo', `Content-Length: ${MIB}`, 'Expect: 100-continue'));
    assert.match(await refused.ended(), /^HTTP\/1\.1 401 /);
    await using tooLarge = new RawClient(origin);
    tooLarge.write(
      head('/call/counter/echo', 'Authorization: Bearer x', `Content-Length: ${99 * MIB}`, 'Expect: 100-continue'),
    );
    assert.match(await tooLarge.ended(), /^HTTP\/1\.1 413 /);
    // A small body would be skipped, but a client that waits for 100 may not send it at all.
    await using small = new RawClient(origin);
    small.write(head('/call/counter/echo', 'Content-Length: 3', 'Expect: 100-continue'));
    assert.match(await small.ended(), /^HTTP\/1\.1 401 [^]*connection: close/i);
  });

  test('an expectation that nobody can meet is told to those who have the token', async (t) => {
    const { origin, readiness } = await startHttpHost(t, { token: 'x' });
    readiness.isReady = false;
    await using stranger = new RawClient(origin);
    stranger.write(head('/call/counter/echo', 'Content-Length: 3', 'Expect: tea'));
    assert.match(await stranger.ended(), /^HTTP\/1\.1 401 /);
    // The header is checked where the body's length is: before readiness.
    await using known = new RawClient(origin);
    known.write(head('/call/counter/echo', 'Authorization: Bearer x', 'Content-Length: 3', 'Expect: tea'));
    assert.match(await known.ended(), /^HTTP\/1\.1 417 [^]*\r\nsvc-version: 9\.8\.7\r\n/);
    await using preflight = new RawClient(origin);
    preflight.write('OPTIONS /call/counter/echo HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nConnection: close\r\n\r\n');
    assert.match(await preflight.ended(), /^HTTP\/1\.1 204 /);
  });

  test('a transfer coding beside chunked is not taken for plain', async (t) => {
    const { origin, canisters } = await startHttpHost(t, { token: 'x' });
    const chunked = '5\r\nhello\r\n0\r\n\r\n';
    for (const coding of ['gzip, chunked', 'deflate,Chunked', 'identity, chunked']) {
      const request = head('/call/counter/echo', 'Authorization: Bearer x', `Transfer-Encoding: ${coding}`) + chunked;
      await using client = new RawClient(origin);
      client.write(request);
      assert.match(await client.ended(), /^HTTP\/1\.1 501 [^]*connection: close[^]*transfer coding/i, coding);
      await using stranger = new RawClient(origin);
      stranger.write(request.replace('Bearer x', 'Bearer y'));
      assert.match(await stranger.ended(), /^HTTP\/1\.1 401 /, coding);
    }
    await using split = new RawClient(origin);
    const lines = ['Authorization: Bearer x', 'Transfer-Encoding: gzip', 'Transfer-Encoding: chunked'];
    split.write(head('/call/counter/echo', ...lines) + chunked);
    assert.match(await split.ended(), /^HTTP\/1\.1 501 /);
    assert.equal(canisters.resolve('counter').count, 0);
    await using plain = new RawClient(origin);
    plain.write(head('/call/counter/echo', 'Authorization: Bearer x', 'Transfer-Encoding: CHUNKED') + chunked);
    assert.match(await plain.until('hello'), /^HTTP\/1\.1 200 /);
  });

  test('a refused request with a small body does not spoil its connection', async (t) => {
    const { origin } = await startHttpHost(t, { token: 'x' });
    await using client = new RawClient(origin);
    client.write(`${head('/call/counter/inc', 'Content-Length: 5')}GET /`);
    await client.until('missing or wrong bearer token');
    client.write('GET /health HTTP/1.1\r\nHost: x\r\n\r\n');
    await client.until('\r\n\r\nok');
  });

  test('a client that leaves in the middle of its body starts nothing', async (t) => {
    const { origin, canisters, log } = await startHttpHost(t);
    {
      await using client = new RawClient(origin);
      client.write(`${head('/call/counter/inc', 'Content-Length: 10')}half`);
      await arrived();
    }
    await arrived();
    assert.equal(canisters.resolve('counter').count, 0);
    assert.deepEqual(log.errors, []);
    assert.equal((await send(origin, 'POST', '/call/counter/inc')).text, '[1]');
  });

  test('a client that leaves before the answer does no harm', async (t) => {
    const { origin, canisters, log } = await startHttpHost(t);
    const held = Promise.withResolvers<void>();
    canisters.resolve('counter').held = held.promise;
    {
      await using client = new RawClient(origin);
      client.write(head('/call/counter/slow', 'Content-Length: 0'));
      await arrived();
    }
    held.resolve();
    await arrived();
    assert.deepEqual(log.errors, []);
    assert.equal(log.events.length, 1);
  });
});
