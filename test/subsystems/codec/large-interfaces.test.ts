/** Large interfaces: parsed only in the worker, which also uses those with very many types. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CodecPool } from '../../../subsystems/codec/codec-pool.ts';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import {
  type AnySizeTuple,
  type CandidInterface,
  type Codec,
  type TupleCodec,
} from '../../../subsystems/codec/index.ts';

const PLAIN = { lossless: false };
const LOSSLESS = { lossless: true };
/** A comment makes any interface long. */
const LONG = `// ${'-'.repeat(20_000)}\n`;
const LEDGER = `
  type Node = record { value : nat; next : opt Node };
  type Owner = principal;
  type Account = record { owner : Owner; "a name" : blob; 7 : text };
  type Answer = variant { ok : Node; err : record { text; nat8 } };
  type Peer = service { get : (Account) -> (Answer) query };
  service : (init : Account, opt nat64) -> {
    put : (Node, vec Account) -> (Answer);
    ask : () -> (Peer, func (text) -> () oneway) query;
    both : (reserved) -> (float64, opt opt int) composite_query;
    tell : (text) -> () oneway;
  }`;

const pool = new CodecPool();
const codec = createCodec(pool);

async function parsed(did: string): Promise<CandidInterface> {
  const parsing = codec.parseInterfaceAnySize(did);
  assert.ok(parsing instanceof Promise, 'long text is not parsed on this thread');
  return await parsing;
}

function tuplesOf<Tuple extends AnySizeTuple>({ methods, initArgs }: CandidInterface<Tuple>): Map<string, Tuple> {
  const tuples = [...methods.values()].flatMap(
    ({ name, kind, args, results }) =>
      [
        [`${name} ${kind} args`, args],
        [`${name} ${kind} results`, results],
      ] as const,
  );
  return new Map([...tuples, ...(initArgs === undefined ? [] : ([['init', initArgs]] as const))]);
}

/** JSON values that fit the tuples of LEDGER. */
const VALUES: Readonly<Record<string, string>> = {
  'put update args': '[{"value":1,"next":{"value":2,"next":null}},[{"owner":"aaaaa-aa","a name":"AAEC","_7_":"x"}]]',
  'put update results': '[{"err":["no",3]}]',
  'ask query args': '[]',
  'ask query results': '["aaaaa-aa",{"principal":"aaaaa-aa","method":"m"}]',
  'both composite_query args': '[null]',
  'both composite_query results': '[1.5,[5]]',
  'tell oneway args': '["told"]',
  'tell oneway results': '[]',
  init: '[{"owner":"2vxsx-fae","a name":"","_7_":""},7]',
};

async function sameConversions(here: Map<string, TupleCodec>, there: Map<string, AnySizeTuple>): Promise<void> {
  assert.deepEqual([...there.keys()], [...here.keys()]);
  for (const [name, tuple] of there) {
    const [sync, json] = [here.get(name), Buffer.from(VALUES[name] ?? '')];
    assert.ok(sync !== undefined && json.length > 0, name);
    const message = await tuple.encodeAnySize(json, PLAIN);
    assert.deepEqual(message, sync.encode(json, PLAIN));
    for (const options of [PLAIN, LOSSLESS])
      assert.deepEqual(await tuple.decodeAnySize(message, options), sync.decode(message, options));
  }
}

describe('large interfaces', { concurrency: false }, () => {
  test('short text is parsed at once, long text in the worker, with the same result', async () => {
    const short = codec.parseInterfaceAnySize(LEDGER);
    assert.ok(!(short instanceof Promise), 'short text needs no other thread');
    const here = tuplesOf(codec.parseInterface(LEDGER));
    await sameConversions(here, tuplesOf(short));
    const long = await parsed(LONG + LEDGER);
    assert.equal(long.text, LONG + LEDGER);
    const there = tuplesOf(long);
    await sameConversions(here, there);
    // The types are known in this thread now.
    for (const [name, tuple] of there)
      assert.ok(tuple.encodeAnySize(Buffer.from(VALUES[name] ?? ''), PLAIN) instanceof Uint8Array, name);
  });

  test('one with very many types is used in the worker, with the same result', async () => {
    const many = Array.from({ length: 4_000 }, (_, at) => `type T${at} = record { nat; x${at} : opt text };`).join(
      '\n',
    );
    const there = tuplesOf(await parsed(many + LEDGER));
    for (const [name, tuple] of there) {
      const converting = tuple.encodeAnySize(Buffer.from(VALUES[name] ?? ''), PLAIN);
      assert.ok(converting instanceof Promise, name);
      await converting;
    }
    await sameConversions(tuplesOf(codec.parseInterface(LEDGER)), there);
  });

  test('the init argument may be known apart, and is what makes an interface long', async () => {
    const did = 'type Account = record { owner : principal }; service : {}';
    const long = codec.parseInterfaceAnySize(did, `${LONG}(Account, nat)`);
    assert.ok(long instanceof Promise);
    const { initArgs } = await long;
    const json = Buffer.from('[{"owner":"aaaaa-aa"},1]');
    const expected = codec.parseInterface(did, '(Account, nat)').initArgs?.encode(json, PLAIN);
    assert.deepEqual(await initArgs?.encodeAnySize(json, PLAIN), expected);
  });

  test('chains of thousands of types and names of any length come over', async () => {
    const chain = Array.from({ length: 1_900 }, (_, at) => `type a${at} = opt a${at + 1};`).join('\n');
    const name = '\\u{41}'.repeat(50_000);
    const { methods } = await parsed(`${chain} type a1900 = nat; service : { "${name}" : (a0) -> () }`);
    assert.deepEqual([...methods.keys()], ['A'.repeat(50_000)]);
    const args = methods.get('A'.repeat(50_000))?.args;
    assert.equal(Buffer.from((await args?.encodeAnySize(Buffer.from('[[]]'), PLAIN)) ?? []).at(-1), 0);
  });

  test('errors are those of parsing at once', async () => {
    const faults: readonly (readonly [string, Parameters<Codec['parseInterface']>[2]])[] = [
      [`${LONG}service : { m : (Nat65) -> () }`, {}],
      [`${LONG}service : { m : (record { nat; nat }) -> () }`, { partsMax: 3 }],
      [`service : { ${'"\\ff" : () -> ();'.repeat(2_000)} }`, {}],
    ];
    for (const [did, bounds] of faults) {
      let expected: unknown;
      assert.throws(
        () => codec.parseInterface(did, undefined, bounds),
        (error) => ((expected = error), true),
      );
      const { kind, code, message } = expected as { kind: string; code: string; message: string };
      await assert.rejects(Promise.resolve(codec.parseInterfaceAnySize(did, undefined, bounds)), {
        kind,
        code,
        message,
      });
    }
  });

  test('when the host stops, what waits is rejected', async () => {
    const asked = parsed(LONG + LEDGER);
    const [, outcome] = await Promise.all([pool.close(), asked.then(String, ({ code }: { code: string }) => code)]);
    assert.equal(outcome, 'codec-closed');
  });
});
