import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { WebsiteResponse } from '../../../subsystems/codec/index.ts';
import {
  RESPONSE_HEADER_BYTES_MAX,
  RESPONSE_HEADERS_MAX,
  WebsiteRecords,
} from '../../../subsystems/codec/website-records.ts';
import { bytes, codecOf, codecOfTuple, fromCandid, refuses, toCandid } from './support.ts';

const records = new WebsiteRecords();

const REQUEST = 'record { method : text; url : text; headers : vec record { text; text }; body : blob';
const queryRequest = codecOf(`${REQUEST}; certificate_version : opt nat16 }`);
const updateRequest = codecOf(`${REQUEST} }`);

const STREAMING = (token: string): string =>
  `opt variant { Callback : record { callback : func (${token}) -> () query; token : ${token} } }`;
const response = codecOf(
  'record { status_code : nat16; headers : vec record { text; text }; body : blob; upgrade : opt bool; ' +
    `streaming_strategy : ${STREAMING('Token')} }`,
  'type Token = record { key : text; at : nat; path : vec opt Token };',
);
const minimal = codecOf('record { status_code : nat16; headers : vec record { text; text }; body : blob }');
const token = codecOf('Token', 'type Token = record { key : text; at : nat; path : vec opt Token };');

const base64 = (text: string): string => Buffer.from(text).toString('base64');
const latin1 = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');
const decode = (reply: Uint8Array): Omit<WebsiteResponse, 'body'> & { readonly body: string } => {
  const { body, ...rest } = records.decodeResponse(reply);
  return { ...rest, body: Buffer.from(body).toString('latin1') };
};
/** Makes a reply of one record of these types; `extra` are further fields. */
const reply = (fields: Readonly<Record<string, readonly [string, unknown]>>): Uint8Array => {
  const all = {
    status_code: ['nat16', 200],
    headers: ['vec record { text; text }', []],
    body: ['blob', ''],
    ...fields,
  } satisfies Record<string, readonly [string, unknown]>;
  const type = Object.entries(all).map(([name, [of]]) => `${name} : ${of}`);
  const value = Object.fromEntries(Object.entries(all).map(([name, [, is]]) => [name, is]));
  return toCandid(codecOf(`record { ${type.join('; ')} }`), JSON.stringify([value]));
};

suite('requests', () => {
  test('each field arrives as it was sent, with the version of certificates null', () => {
    const request = {
      method: 'POST',
      url: '/a%2Fb?x=%zz#c',
      headers: ['Host', 'a', 'Cookie', `k=${'v'.repeat(300)}`, 'cookie', '2'],
      body: bytes('00ff80'),
    };
    assert.deepEqual(JSON.parse(fromCandid(queryRequest, records.encodeRequest(request, false))), [
      {
        method: 'POST',
        url: '/a%2Fb?x=%zz#c',
        headers: [
          ['Host', 'a'],
          ['Cookie', `k=${'v'.repeat(300)}`],
          ['cookie', '2'],
        ],
        body: 'AP+A',
        certificate_version: null,
      },
    ]);
    const update = JSON.parse(fromCandid(updateRequest, records.encodeRequest(request, true))) as unknown[];
    assert.deepEqual(Object.keys(update[0] as object).sort(), ['body', 'headers', 'method', 'url']);
  });

  test('bodies of every length around those of the length itself', () => {
    for (const length of [0, 1, 127, 128, 129, 16_383, 16_384, 300_000]) {
      const body = Buffer.alloc(length, 'x');
      const encoded = records.encodeRequest({ method: 'PUT', url: '/', headers: [], body }, true);
      const [{ body: decoded }] = JSON.parse(fromCandid(updateRequest, encoded)) as [{ body: string }];
      assert.equal(Buffer.from(decoded, 'base64').length, length);
    }
  });

  test('UTF-8 is text, short and long; other bytes are refused with their place', () => {
    const long = 'ü'.repeat(100);
    const request = { method: 'GET', url: latin1('/ä'), headers: ['x', latin1(long)], body: bytes('') };
    const [decoded] = JSON.parse(fromCandid(updateRequest, records.encodeRequest(request, true))) as [
      { url: string; headers: string[][] },
    ];
    assert.equal(decoded.url, '/ä');
    assert.deepEqual(decoded.headers, [['x', long]]);
    for (const bad of ['\xff', `${'a'.repeat(100)}\xc3`]) {
      refuses(() => records.encodeRequest({ ...request, url: bad }, false), /^the target is not UTF-8/);
      refuses(() => records.encodeRequest({ ...request, headers: ['x-y', bad] }, false), /^header x-y is not UTF-8/);
    }
  });
});

suite('answers', () => {
  test('a full record', () => {
    const callback = { principal: 'bkyz2-fmaaa-aaaaa-qaaaq-cai', method: 'next piece' };
    const aToken = { key: 'k', at: '123456789012345678901', path: [null, { key: '', at: 1, path: [] }] };
    const { streaming, ...rest } = decode(
      toCandid(
        response,
        JSON.stringify([
          {
            status_code: 404,
            headers: [
              ['Set-Cookie', 'a=1'],
              ['Set-Cookie', 'b=2'],
              ['x', 'ü'],
              ['long', 'ö'.repeat(50)],
            ],
            body: base64('abc'),
            upgrade: false,
            streaming_strategy: { Callback: { callback, token: aToken } },
          },
        ]),
      ),
    );
    assert.deepEqual(rest, {
      status: 404,
      headers: ['Set-Cookie', 'a=1', 'Set-Cookie', 'b=2', 'x', latin1('ü'), 'long', latin1('ö'.repeat(50))],
      body: 'abc',
      isUpgrade: false,
    });
    assert.equal(Buffer.from(streaming?.canister ?? []).toString('hex'), '80000000001000010101');
    assert.equal(streaming?.method, 'next piece');
    assert.deepEqual(JSON.parse(fromCandid(token, streaming.token)), [aToken]);
  });

  test('fields that may be missing, or null, or of an older shape', () => {
    const plain = { status: 200, headers: [], body: '', isUpgrade: false, streaming: undefined };
    assert.deepEqual(decode(reply({})), plain);
    assert.deepEqual(decode(reply({ upgrade: ['null', null], streaming_strategy: ['null', null] })), plain);
    assert.deepEqual(decode(reply({ upgrade: ['opt bool', true] })), { ...plain, isUpgrade: true });
    assert.deepEqual(decode(reply({ upgrade: ['bool', true] })), { ...plain, isUpgrade: true });
    assert.deepEqual(decode(reply({ upgrade: ['opt nat', 5] })), plain);
    assert.deepEqual(decode(reply({ streaming_strategy: [STREAMING('nat'), null] })), plain);
    assert.deepEqual(decode(reply({ aaa: ['vec nat', [1, 2]], zzz: ['opt text', 'x'] })), plain);
    assert.deepEqual(decode(reply({ headers: ['vec empty', []], body: ['vec empty', []] })), plain);
    const wide = decode(reply({ headers: ['vec record { text; text; nat }', [['a', 'b', 5]]] }));
    assert.deepEqual(wide.headers, ['a', 'b']);
    const more = codecOfTuple(
      '(record { status_code : nat16; headers : vec record { text; text }; body : blob }, nat)',
    );
    assert.deepEqual(decode(toCandid(more, '[{"status_code":200,"headers":[],"body":""},5]')), plain);
  });

  test('the plan for one head does not read another', () => {
    const replies = [
      reply({}),
      reply({ upgrade: ['opt bool', true] }),
      reply({ a: ['nat', 1] }),
      reply({ zzz: ['text', 'x'] }),
      ...Array.from({ length: 12 }, (_, at) => reply({ [`f${at}`]: ['nat', at] })),
    ];
    for (let round = 0; round < 3; round++) {
      for (const [at, each] of replies.entries()) assert.equal(decode(each).isUpgrade, at === 1);
    }
  });

  test('what is no such record is refused with the field', () => {
    const wrong: readonly [Uint8Array, RegExp][] = [
      [bytes(''), /^message: it is empty/],
      [bytes('4449444c0000'), /^reply: it has no value/],
      [toCandid(codecOf('nat'), '[1]'), /^reply: expected a record, found nat/],
      [
        toCandid(codecOf('record { status_code : nat16 }'), '[{"status_code":200}]'),
        /^reply: it lacks the field headers/,
      ],
      [reply({ status_code: ['nat', 200] }), /^status_code: expected nat16, found nat/],
      [reply({ headers: ['vec text', ['a']] }), /^headers: expected vec record \{ text; text \}/],
      [reply({ headers: ['text', 'a'] }), /^headers: expected vec record/],
      [reply({ body: ['vec nat16', [1]] }), /^body: expected a blob/],
      [reply({ body: ['text', 'a'] }), /^body: expected a blob, found text/],
      [
        reply({ streaming_strategy: ['opt nat', 1] }),
        /^streaming_strategy: expected variant \{ Callback \}, found nat/,
      ],
      [
        reply({ streaming_strategy: ['opt variant { Other }', { Other: null }] }),
        /^streaming_strategy: expected variant/,
      ],
      [
        reply({
          streaming_strategy: ['opt variant { Callback : record { token : nat } }', { Callback: { token: 1 } }],
        }),
        /^streaming_strategy.Callback: it lacks the field callback/,
      ],
      [Buffer.concat([reply({}), Buffer.of(0)]), /^reply: 1 bytes are left over/],
      [reply({}).subarray(0, -1), /the message ends within|bytes follow/],
    ];
    for (const [message, expected] of wrong) refuses(() => records.decodeResponse(message), expected);
  });

  test('too many headers, and too long ones, are refused', () => {
    const header = (count: number, length: number) =>
      reply({ headers: ['vec record { text; text }', Array.from({ length: count }, () => ['a', 'b'.repeat(length)])] });
    assert.equal(records.decodeResponse(header(RESPONSE_HEADERS_MAX, 1)).headers.length, 2 * RESPONSE_HEADERS_MAX);
    refuses(() => records.decodeResponse(header(RESPONSE_HEADERS_MAX + 1, 1)), /1001; at most 1000/);
    refuses(() => records.decodeResponse(header(1, RESPONSE_HEADER_BYTES_MAX + 1)), /headers/);
    refuses(() => records.decodeResponse(header(70, 1000)), /more than 65536 bytes/);
  });

  test('a large body is a part of the reply; the work for what nobody asked for is bounded, however long it is', () => {
    const body = Buffer.alloc(8 * 2 ** 20, 7);
    const large = toCandid(minimal, `[{"status_code":200,"headers":[],"body":"${body.toString('base64')}"}]`);
    const decoded = records.decodeResponse(large);
    assert.equal(decoded.body.buffer, large.buffer);
    assert.equal(decoded.body.length, body.length);
    const junk = toCandid(
      codecOf('record { status_code : nat16; headers : vec record { text; text }; body : blob; junk : vec nat16 }'),
      `[{"status_code":200,"headers":[],"body":"","junk":[${'1,'.repeat(4_000_000)}1]}]`,
    );
    refuses(() => records.decodeResponse(junk), /too many values/, 'codec-quota');
  });

  test('a huge type table is refused before it is read', () => {
    const head = Buffer.concat([
      Buffer.from('DIDL'),
      Buffer.of(0x90, 0x4e), // 10,000 entries
      Buffer.alloc(20_000, Buffer.of(0x6e, 0x7d)), // opt nat
      Buffer.of(1, 0),
      Buffer.alloc(10, 0),
    ]);
    refuses(() => records.decodeResponse(head), /ends within/);
  });
});

suite('pieces', () => {
  const chunk = (
    type: string,
    value: unknown,
    definitions = '',
  ): { readonly body: string; readonly token: unknown } => {
    const { body, token: next } = records.decodeChunk(toCandid(codecOf(type, definitions), JSON.stringify([value])));
    return {
      body: Buffer.from(body).toString(),
      token: next === undefined ? undefined : Buffer.from(next).toString('hex'),
    };
  };

  test('a body and perhaps a token, which is given back in its own type', () => {
    const body = base64('abc');
    assert.deepEqual(chunk('record { body : blob; token : opt nat64 }', { body, token: '5' }), {
      body: 'abc',
      token: Buffer.from(toCandid(codecOf('nat64'), '[5]')).toString('hex'),
    });
    assert.deepEqual(chunk('record { body : blob; token : opt nat }', { body, token: null }), {
      body: 'abc',
      token: undefined,
    });
    assert.deepEqual(chunk('record { body : blob }', { body }), { body: 'abc', token: undefined });
    assert.deepEqual(chunk('opt record { body : blob; token : opt nat }', null), { body: '', token: undefined });
    assert.deepEqual(chunk('opt record { body : blob; token : opt text }', { body, token: 'x' }), {
      body: 'abc',
      token: Buffer.from(toCandid(codecOf('text'), '["x"]')).toString('hex'),
    });
  });

  test('a token of a type of a later version is refused', () => {
    const future = bytes(
      // Table: record { token : 2; body : 1 }, vec nat8, opt 3, future (opcode −25, no bytes).
      `4449444c 04 6c02 ${lebHex('token')} 02 ${lebHex('body')} 01 6d7b 6e03 6700 01 00 01 0000 00`,
    );
    refuses(() => records.decodeChunk(future), /^token: it is of a type of a later Candid version/);
  });
});

function lebHex(name: string): string {
  let hash = 0;
  for (const byte of Buffer.from(name)) hash = (Math.imul(hash, 223) + byte) >>> 0;
  const out: number[] = [];
  for (; hash > 127; hash >>>= 7) out.push((hash & 127) | 128);
  return Buffer.from([...out, hash]).toString('hex');
}
