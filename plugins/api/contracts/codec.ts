/** `svc/contracts/codec`: the suite that every translation between Candid and JSON has to pass. */
import assert from 'node:assert/strict';
import { ServerError } from '../../../kernel/index.ts';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import type { Codec, TupleCodec } from '../../../subsystems/codec/index.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from './runner.ts';

/** Types, the JSON to encode, the Candid message in hex, and the decoded JSON. */
const VALUES: readonly (readonly [types: string, json: string, candid: string, back: string])[] = [
  ['()', '[]', '4449444c0000', '[]'],
  ['(nat)', '[300]', '4449444c00017dac02', '[300]'],
  ['(nat)', '["9007199254740993"]', '4449444c00017d8180808080808010', '["9007199254740993"]'],
  ['(int8, bool)', '[-1, true]', '4449444c0002777eff01', '[-1,true]'],
  ['(text)', '["grüß"]', '4449444c000171066772c3bcc39f', '["grüß"]'],
  ['(opt nat8)', '[null]', '4449444c016e7b010000', '[null]'],
  ['(opt nat8)', '[7]', '4449444c016e7b01000107', '[7]'],
  ['(vec nat8)', '["AQI="]', '4449444c016d7b0100020102', '["AQI="]'],
  ['(record { a : nat8; b : null })', '[{"a":1,"b":null}]', '4449444c016c02617b627f010001', '[{"a":1,"b":null}]'],
  ['(variant { ok : nat8; no })', '[{"ok":5}]', '4449444c016b029cc2017bd1c4017f01000005', '[{"ok":5}]'],
  ['(principal)', '["2vxsx-fae"]', '4449444c000168010104', '["2vxsx-fae"]'],
];

const PLAIN = { lossless: false };
const LOSSLESS = { lossless: true };

export function describeCodec(
  name: string,
  make: (context: SuiteContext, own: () => Codec) => Codec | Promise<Codec>,
  runner: SuiteRunner = nodeRunner,
): void {
  const made = async (t: SuiteContext): Promise<Codec> => make(t, () => createCodec());
  suite(runner, name, (test) => {
    test('values of each kind are encoded and decoded as the format says', async (t) => {
      const codec = await made(t);
      for (const [types, json, candid, back] of VALUES) {
        const { args } = methodOf(codec, types);
        const bytes = Buffer.from(candid, 'hex');
        assert.equal(textOf(args.decode(bytes, PLAIN)), back, types);
        const encoded = args.encode(Buffer.from(json), PLAIN);
        assert.equal(textOf(args.decode(encoded, PLAIN)), back, `${types}, there and back`);
        assert.equal(textOf(await args.decodeAnySize(await args.encodeAnySize(Buffer.from(json), PLAIN), PLAIN)), back);
        const lossless = args.decode(bytes, LOSSLESS);
        assert.equal(textOf(args.decode(args.encode(lossless, LOSSLESS), PLAIN)), back, `${types}, lossless`);
      }
    });

    test('trailing arguments that may be null may be missing, and are sent as such', async (t) => {
      const codec = await made(t);
      const { args } = methodOf(codec, '(nat, opt text, null, reserved)');
      const whole = '[1,"a",null,null]';
      for (const [json, back] of [
        [whole, whole],
        ['[1,"a",null]', whole],
        ['[1,"a"]', whole],
        ['[1]', '[1,null,null,null]'],
      ] as const)
        assert.equal(textOf(args.decode(args.encode(Buffer.from(json), PLAIN), PLAIN)), back, json);
      const lossless = args.encode(Buffer.from('[{"$svc":"nat","value":"1"}]'), LOSSLESS);
      assert.deepEqual(lossless, args.encode(Buffer.from('[1]'), PLAIN));
      refused(() => args.encode(Buffer.from('[]'), PLAIN), 'one that may not be null');
    });

    test('an interface is read with its methods, kinds and init arguments', async (t) => {
      const codec = await made(t);
      const did =
        'service : (nat) -> { a : (nat) -> (text); b : () -> () query; c : () -> () composite_query; d : () -> () oneway }';
      const { text, methods, initArgs } = codec.parseInterface(did);
      assert.equal(text, did);
      assert.deepEqual(
        [...methods].map(([key, method]) => [key, method.name, method.kind]),
        [
          ['a', 'a', 'update'],
          ['b', 'b', 'query'],
          ['c', 'c', 'composite_query'],
          ['d', 'd', 'oneway'],
        ],
      );
      assert.ok(initArgs !== undefined);
      assert.equal((await codec.parseInterfaceAnySize(did)).methods.size, 4);
    });

    test('input that is none is refused as invalid, wherever it is wrong', async (t) => {
      const codec = await made(t);
      const { args } = methodOf(codec, '(record { owner : principal })');
      for (const json of [
        '',
        '{}',
        '[]',
        '[{"owner":1}]',
        '[{"owner":"x"}]',
        '[{}]',
        '[1,2]',
        '[{"owner":"2vxsx-fae","more":1}]',
      ])
        refused(() => args.encode(Buffer.from(json), PLAIN), json);
      assert.throws(() => args.encode(Buffer.from('[{"owner":1}]'), PLAIN), /args\[0\]\.owner/, 'the place is named');
      for (const candid of [
        '',
        '44',
        '4449444c',
        '4449444c0001',
        '4449444cffffffffff',
        '4449444c016d000100ffffffff0f',
        `4449444c${'ff'.repeat(40)}`,
      ])
        refused(() => args.decode(Buffer.from(candid, 'hex'), PLAIN), candid);
      for (const did of ['', 'service', 'service : nat', 'service : { a : (b) -> () }', 'type a = opt'])
        refused(() => codec.parseInterface(did), did);
    });

    test('every cut of a message is refused or decoded, and nothing else', async (t) => {
      const codec = await made(t);
      for (const [types, , candid] of VALUES) {
        const { args } = methodOf(codec, types);
        const whole = Buffer.from(candid, 'hex');
        for (let length = 0; length < whole.length; length++)
          refused(() => args.decode(whole.subarray(0, length), PLAIN), `${candid} cut at ${length}`);
      }
    });

    test('value text says its own types, and a preview never throws', async (t) => {
      const codec = await made(t);
      const bytes = codec.encodeText('(42 : nat8, "a")');
      assert.equal(textOf(methodOf(codec, '(nat8, text)').args.decode(bytes, PLAIN)), '[42,"a"]');
      assert.match(codec.previewText(bytes, 100) ?? '', /42.*"a"/);
      assert.equal(codec.previewText(Buffer.from('not Candid'), 100), undefined);
      assert.ok((codec.previewText(codec.encodeText(`("${'x'.repeat(1000)}")`), 50) ?? '').length <= 50);
      refused(() => codec.encodeText('(1'), 'cut text');
    });

    test('without an interface values go there and back by what they say of themselves', async (t) => {
      const { untyped } = await made(t);
      for (const [types, , candid] of VALUES) {
        const json = untyped.decode(Buffer.from(candid, 'hex'), LOSSLESS);
        assert.deepEqual(textOf(untyped.decode(untyped.encode(json, LOSSLESS), LOSSLESS)), textOf(json), types);
      }
    });
  });
}

function methodOf(codec: Codec, types: string): { readonly args: TupleCodec } {
  const method = codec.parseInterface(`service : { m : ${types} -> () }`).methods.get('m');
  assert.ok(method !== undefined);
  return method;
}

function refused(work: () => unknown, what: string): void {
  assert.throws(
    work,
    (error) => error instanceof ServerError && error.kind === 'invalid' && error.message !== '',
    what,
  );
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('utf8');
}
