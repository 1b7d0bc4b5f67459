/** `multipart/form-data` on `/install` and `/upgrade`: accepted and rejected forms. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RawClient, send } from '../../support/http-client.ts';
import { startHttpHost } from './counter-host.ts';

const WASM = '\0asm\x01\0\0\0';
const B = 'xYzZY';
const TYPE = `multipart/form-data; boundary=${B}`;

interface Part {
  readonly name?: string;
  readonly content: string;
  /** Header in place of the usual one. */
  readonly head?: string;
}

function bodyOf(parts: readonly Part[], end = `--${B}--\r\n`): Buffer {
  const texts = parts.map(({ name, content, head }) => {
    const header = head ?? `Content-Disposition: form-data; name="${name}"`;
    return `--${B}\r\n${header}\r\n\r\n${content}\r\n`;
  });
  return Buffer.from(texts.join('') + end, 'latin1');
}

const part = (name: string, content: string): Part => ({ name, content });
const textOf = (text: unknown): string => Buffer.from(text as Uint8Array).toString('utf8');

test('the parts of a form are what an installation is made with', async (t) => {
  const { origin, canisters, log } = await startHttpHost(t);
  const body = bodyOf([
    {
      head: 'Content-Disposition: form-data; name="wasm"; filename="l.wasm.gz"\r\nContent-Type: application/gzip',
      content: WASM,
    },
    { head: 'content-disposition:form-data;name=candid', content: 'service : {}' },
    part('args', ' \n(5, null)'),
    part('cycles', '5000'),
  ]);
  const answer = await send(origin, 'POST', '/install/new', { headers: { 'content-type': TYPE }, body });
  assert.equal(answer.status, 200, answer.text);
  const [{ bytes, options } = { bytes: 0, options: undefined }] = canisters.installed;
  assert.equal(bytes, 8);
  assert.ok(options !== undefined && options.argument !== undefined && 'kind' in options.argument);
  assert.equal(options.candidText, 'service : {}');
  assert.equal(options.cycles, 5000n);
  assert.equal(options.argument.kind, 'candid');
  assert.equal(textOf('text' in options.argument && options.argument.text), ' \n(5, null)');
  assert.deepEqual(log.events.at(-1)?.fields['ok'], 'true');
});

test('however it is cut into pieces, a form is the same', async (t) => {
  const { origin, canisters } = await startHttpHost(t);
  const content = `${WASM}\r\n--${B.slice(0, 3)}\r\n-\r\n--\r\n--${B.slice(0, 4)}X${'\r\n'.repeat(50)}`;
  const body = bodyOf([part('wasm', content), part('args', '[1, "a"]')]);
  for (const size of [1, 2, 3, 7, 64]) {
    await using client = new RawClient(origin);
    client.write(
      `POST /install/n${size} HTTP/1.1\r\nhost: x\r\ncontent-type: ${TYPE}\r\ntransfer-encoding: chunked\r\n\r\n`,
    );
    for (let at = 0; at < body.length; at += size) {
      const piece = body.subarray(at, at + size);
      client.write(Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]));
      if (at % 50 === 0) await new Promise(setImmediate);
    }
    client.write('0\r\n\r\n');
    await client.until('200 OK');
  }
  assert.deepEqual(
    canisters.installed.map(({ bytes }) => bytes),
    Array.from({ length: 5 }, () => content.length),
  );
});

test('a body that begins as a module is one, whatever its type', async (t) => {
  const { origin, canisters } = await startHttpHost(t);
  for (const [at, body] of [Buffer.from(WASM, 'latin1'), Buffer.from([0x1f, 0x8b, 8, 0, 0])].entries()) {
    for (const [kind, type] of [TYPE, 'multipart/form-data', 'text/html'].entries()) {
      const answer = await send(origin, 'POST', `/install/m${at}${kind}`, { headers: { 'content-type': type }, body });
      assert.equal(answer.status, 200, answer.text);
    }
  }
  assert.deepEqual(
    canisters.installed.map(({ bytes }) => bytes),
    [8, 8, 8, 5, 5, 5],
  );
});

test('without a module an upgrade reloads, and an installation is refused', async (t) => {
  const { origin, canisters, log } = await startHttpHost(t);
  const body = bodyOf([part('args', '[]')]);
  const headers = { 'content-type': TYPE };
  assert.equal((await send(origin, 'POST', '/upgrade/counter', { headers, body })).text, 'upgraded');
  assert.equal(canisters.upgraded[0]?.bytes, undefined);
  const empty = await send(origin, 'POST', '/upgrade/counter', { headers });
  assert.equal(empty.text, 'upgraded', 'no body at all is no broken form');
  const refused = await send(origin, 'POST', '/install/new', { headers, body });
  assert.equal(refused.status, 400);
  assert.match(refused.text, /the body is empty, or a form without the part wasm/);
  assert.deepEqual([log.events.at(-1)?.fields['kind'], log.events.at(-1)?.fields['ok']], ['install', 'false']);
});

describe('a form that is not understood to the end is refused, and does nothing', () => {
  const module = part('wasm', WASM);
  const many = Array.from({ length: 10_000 }, (_, at) => part(`p${at}`, 'x'));
  const cases: Readonly<
    Record<string, readonly [body: Buffer, message: RegExp, target?: string | undefined, type?: string]>
  > = {
    'an unknown part': [
      bodyOf([module, part('wasn', '')]),
      /there is no part \\"wasn\\": a form may have wasm, candid, args, cycles/,
    ],
    'a part twice': [bodyOf([module, part('args', '[]'), part('args', '[]')]), /the part args is there twice/],
    'ten thousand parts': [bodyOf(many), /there is no part \\"p0\\"/],
    'ten thousand times the same': [
      bodyOf(Array.from({ length: 10_000 }, () => module)),
      /the part wasm is there twice/,
    ],
    'args beside ?arg=': [
      bodyOf([module, part('args', '[]')]),
      /in \?arg= and in the part args/,
      '/install/new?arg=0x4449444c0000',
    ],
    'an empty part wasm': [bodyOf([part('wasm', '')]), /the part wasm is empty/],
    'an empty part args': [bodyOf([module, part('args', ' \n ')]), /the part args is empty/],
    // Looking through all of them would take seconds for 64 MiB.
    'many blanks before args': [
      bodyOf([module, part('args', `${' '.repeat(4097)}()`)]),
      /begins with more than 4096 blanks/,
    ],
    'cycles at an upgrade': [bodyOf([module, part('cycles', '5')]), /an upgrade keeps the balance/, '/upgrade/counter'],
    'cycles at a reinstallation': [
      bodyOf([module, part('cycles', '5')]),
      /a reinstallation keeps/,
      '/install/counter?mode=reinstall',
    ],
    'cycles that are none': [bodyOf([module, part('cycles', '1e9')]), /cycles as decimal text/],
    'no end': [bodyOf([module], ''), /the form has no end/],
    'half an end': [bodyOf([module], `--${B}-`), /the form has no end/],
    'no boundary in the body': [Buffer.from('hello, world'), /the form has no end/],
    'nothing but a byte': [Buffer.from('x'), /the form has no end/],
    'no boundary in the header': [bodyOf([module]), /has no boundary/, undefined, 'multipart/form-data'],
    'an empty boundary': [bodyOf([module]), /has no boundary/, undefined, 'multipart/form-data; boundary='],
    'two boundaries': [bodyOf([module]), /has no boundary/, undefined, `${TYPE}; boundary=other`],
    'a boundary of a thousand characters': [
      bodyOf([module]),
      /has no boundary/,
      undefined,
      `${TYPE}${'x'.repeat(1000)}`,
    ],
    'a boundary in an odd alphabet': [
      bodyOf([module]),
      /has no boundary/,
      undefined,
      'multipart/form-data; boundary="a\\"b"',
    ],
    'a part without name': [bodyOf([{ head: 'Content-Disposition: form-data', content: WASM }]), /there is no part/],
    'a part without headers': [
      Buffer.from(`--${B}\r\n\r\n${WASM}\r\n--${B}--`, 'latin1'),
      /a part (says|has no headers)/,
    ],
    'a part cut off in its headers': [Buffer.from(`--${B}\r\nContent-Dispo\r\n--${B}--`), /a part has no headers/],
    'a part of another disposition': [
      bodyOf([{ head: 'Content-Disposition: attachment; name="wasm"', content: WASM }]),
      /instead of: Content-Disposition/,
    ],
    'two dispositions': [
      bodyOf([
        {
          head: 'Content-Disposition: form-data; name="wasm"\r\nContent-Disposition: form-data; name="args"',
          content: WASM,
        },
      ]),
      /instead of: Content-Disposition/,
    ],
    'two names': [
      bodyOf([{ head: 'Content-Disposition: form-data; name="wasm"; name="args"', content: WASM }]),
      /there is no part/,
    ],
    'name*': [
      bodyOf([{ head: "Content-Disposition: form-data; name*=utf-8''wasm", content: WASM }]),
      /there is no part/,
    ],
    'a name of the prototype': [bodyOf([part('__proto__', '')]), /there is no part \\"__proto__\\"/],
    'a name that is never closed': [
      bodyOf([{ head: 'Content-Disposition: form-data; name="wasm', content: WASM }]),
      /instead of: Content-Disposition/,
    ],
    'a header of 100 KB': [
      bodyOf([{ head: `X: ${'x'.repeat(100_000)}\r\nContent-Disposition: form-data; name="wasm"`, content: WASM }]),
      /a part.s headers have more than 4096 bytes/,
    ],
    'a coding': [
      bodyOf([
        {
          head: 'Content-Disposition: form-data; name="wasm"\r\nContent-Transfer-Encoding: base64',
          content: 'AGFzbQ==',
        },
      ]),
      /encoded as \\"base64\\": send it as it is/,
    ],
    'two codings': [
      bodyOf([
        {
          head: 'Content-Disposition: form-data; name="wasm"\r\nContent-Transfer-Encoding: binary\r\nContent-Transfer-Encoding: base64',
          content: 'AGFzbQ==',
        },
      ]),
      /encoded as \\"binary, base64\\"/,
    ],
    'more headers than are looked at': [
      bodyOf([
        {
          head: `Content-Disposition: form-data; name="wasm"\r\n${'X: y\r\n'.repeat(16)}Content-Transfer-Encoding: base64`,
          content: 'AGFzbQ==',
        },
      ]),
      /a part has 16 headers or more/,
    ],
    'headers of more bytes than are looked at': [
      bodyOf([
        {
          head: `Content-Disposition: form-data; name="wasm"; filename="${'x'.repeat(4090)}"\r\nContent-Transfer-Encoding: base64`,
          content: 'AGFzbQ==',
        },
      ]),
      /a part's headers have more than 4096 bytes/,
    ],
    'two types': [
      bodyOf([
        module,
        {
          head: 'Content-Disposition: form-data; name="args"\r\nContent-Type: text/plain\r\nContent-Type: text/plain; charset=utf-16',
          content: '[]',
        },
      ]),
      /args is text in \\"utf-16\\"/,
    ],
    'a charset': [
      bodyOf([
        module,
        {
          head: 'Content-Disposition: form-data; name="args"\r\nContent-Type: text/plain; charset=utf-16',
          content: '[]',
        },
      ]),
      /args is text in \\"utf-16\\": send UTF-8/,
    ],
    'text that is not UTF-8': [bodyOf([module, part('candid', '\xff\xfe')]), /the part candid is not UTF-8/],
  };
  for (const [what, [body, message, target = '/install/new', type = TYPE]] of Object.entries(cases)) {
    test(what, async (t) => {
      const { origin, canisters, log } = await startHttpHost(t);
      const answer = await send(origin, 'POST', target, { headers: { 'content-type': type }, body });
      assert.equal(answer.status, 400, answer.text);
      assert.match(answer.text, message);
      assert.deepEqual(Object.keys(answer.json() as object), ['code', 'message']);
      assert.deepEqual([canisters.installed, canisters.upgraded, canisters.reinstalled], [[], [], []]);
      assert.equal(log.events.at(-1)?.fields['ok'], 'false');
      assert.deepEqual(log.errors, []);
    });
  }

  test('file names and comments around the form are of no meaning', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    const head = `Content-Disposition: form-data; name="wasm"; filename="../../etc/\\"x"; filename*=UTF-8''%00%2e%2e`;
    const body = Buffer.concat([
      Buffer.from('preamble\r\n'),
      bodyOf([{ head, content: WASM }]),
      Buffer.from('epilogue'),
    ]);
    const answer = await send(origin, 'POST', '/install/new', { headers: { 'content-type': TYPE }, body });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(canisters.installed[0]?.bytes, 8);
  });
});

test('a part or a form that is too large is 413, chunked too', async (t) => {
  const { origin, canisters } = await startHttpHost(t);
  const headers = { 'content-type': TYPE };
  const large = bodyOf([part('wasm', WASM), part('candid', ' '.repeat(1024 * 1024 + 1))]);
  for (const more of [{}, { 'transfer-encoding': 'chunked' }]) {
    const answer = await send(origin, 'POST', '/install/new', { headers: { ...headers, ...more }, body: large });
    assert.equal(answer.status, 413, answer.text);
    assert.match(answer.text, /a part of the form is larger than 1048576 bytes/);
  }
  const cycles = bodyOf([part('wasm', WASM), part('cycles', '5'.repeat(65))]);
  assert.equal((await send(origin, 'POST', '/install/new', { headers, body: cycles })).status, 413);
  const claimed = await send(origin, 'POST', '/install/new', {
    headers: { ...headers, 'content-length': 192 * 1024 * 1024 + 1 },
  });
  assert.equal(claimed.status, 413);
  assert.deepEqual(canisters.installed, []);
});

test('a form of nothing but parts without headers is refused at the second of them', async (t) => {
  const { origin } = await startHttpHost(t);
  for (const parts of [`\r\n--${B}`, `\r\n--${B}x`]) {
    await using client = new RawClient(origin);
    const length = `content-length: ${150 * 2 ** 20}`;
    client.write(`POST /install/new HTTP/1.1\r\nhost: x\r\ncontent-type: ${TYPE}\r\n${length}\r\n\r\n`);
    client.write(Buffer.alloc(16 * 1024, parts));
    await client.until('a part has no headers');
  }
});

test('a client that leaves in the middle of a form leaves nothing behind', async (t) => {
  const { origin, canisters } = await startHttpHost(t);
  await using client = new RawClient(origin);
  client.write(`POST /install/new HTTP/1.1\r\nhost: x\r\ncontent-type: ${TYPE}\r\ncontent-length: 5000\r\n\r\n`);
  client.write(bodyOf([part('wasm', WASM)]).subarray(0, 40));
  await new Promise((resolve) => setTimeout(resolve, 50));
  await client[Symbol.asyncDispose]();
  assert.equal((await send(origin, 'GET', '/actors')).status, 200);
  assert.deepEqual(canisters.installed, []);
});

test('after a form that is refused early, the connection goes on', async (t) => {
  const { origin } = await startHttpHost(t);
  await using client = new RawClient(origin);
  const body = bodyOf([part('nonsense', 'x'.repeat(40_000))]);
  client.write(
    `POST /install/new HTTP/1.1\r\nhost: x\r\ncontent-type: ${TYPE}\r\ncontent-length: ${body.length}\r\n\r\n`,
  );
  client.write(body);
  await client.until('there is no part');
  client.write('GET /health HTTP/1.1\r\nhost: x\r\n\r\n');
  await client.until('\r\n\r\nok');
});
