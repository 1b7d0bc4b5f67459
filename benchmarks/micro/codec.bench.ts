/**
 * Measures the conversion of JSON into Candid and back, for messages as actors really get them.
 *
 * JSON.parse and JSON.stringify on the same text, and @dfinity/candid on the same values, are shown for scale: neither
 * does the whole job (the former know no types, the latter knows no text).
 */
import { IDL } from '@dfinity/candid';
import { bench, do_not_optimize, group, run } from 'mitata';
import { createCodec } from '../../subsystems/codec/codec.ts';
import { optionsOf } from '../options.ts';

optionsOf({});

const FIELDS = ['id', 'owner', 'title', 'body', 'created', 'updated', 'size', 'tags', 'state', 'pinned'];
const NOTE = `record {
  id : nat; owner : principal; title : text; body : text; created : int; updated : opt int; size : nat32;
  tags : vec text; state : variant { draft; published : nat64 }; pinned : bool }`;
const NOTE_IDL = IDL.Record({
  id: IDL.Nat,
  owner: IDL.Principal,
  title: IDL.Text,
  body: IDL.Text,
  created: IDL.Int,
  updated: IDL.Opt(IDL.Int),
  size: IDL.Nat32,
  tags: IDL.Vec(IDL.Text),
  state: IDL.Variant({ draft: IDL.Null, published: IDL.Nat64 }),
  pinned: IDL.Bool,
});

function note(id: number): Record<string, unknown> {
  const values = [
    id,
    'bkyz2-fmaaa-aaaaa-qaaaq-cai',
    'A note of ordinary length',
    'Its body is a little longer, but still what people write into a form.',
    1_700_000_000_000_000,
    null,
    4_096,
    ['work', 'later'],
    { published: 17 },
    true,
  ];
  return Object.fromEntries(FIELDS.map((field, index) => [field, values[index]]));
}

const cases: readonly (readonly [title: string, type: string, idl: readonly IDL.Type[], values: readonly unknown[]])[] =
  [
    ['no arguments', '', [], []],
    ['one nat', 'nat', [IDL.Nat], [1]],
    ['a record of 10 fields', NOTE, [NOTE_IDL], [note(1)]],
    [
      'a vec of 1,000 such records',
      `vec ${NOTE}`,
      [IDL.Vec(NOTE_IDL)],
      [Array.from({ length: 1_000 }, (_, id) => note(id))],
    ],
    ['a blob of 64 KiB', 'blob', [IDL.Vec(IDL.Nat8)], [Buffer.alloc(65_536, 7).toString('base64')]],
    ['a vec of 1,000 nat', 'vec nat', [IDL.Vec(IDL.Nat)], [Array.from({ length: 1_000 }, (_, index) => index * 1_000)]],
  ];

const codec = createCodec();

for (const [title, type, idl, values] of cases) {
  const method = codec.parseInterface(`service : { m : (${type}) -> () }`).methods.get('m');
  if (method === undefined) throw new Error('the interface lost its method');
  const tuple = method.args;
  const json = Buffer.from(JSON.stringify(values));
  const lossless = { lossless: true };
  const plain = { lossless: false };
  const message = tuple.encode(json, plain);
  const losslessJson = tuple.decode(message, lossless);
  const reference = IDL.decode([...idl], message);

  group(`${title} (${json.length} bytes of JSON, ${message.length} of Candid)`, () => {
    bench('JSON to Candid', () => do_not_optimize(tuple.encode(json, plain)));
    bench('JSON to Candid, lossless', () => do_not_optimize(tuple.encode(losslessJson, lossless)));
    bench('  JSON.parse alone', () => do_not_optimize(JSON.parse(json.toString())));
    bench('  IDL.encode alone', () => do_not_optimize(IDL.encode([...idl], reference)));
    bench('Candid to JSON', () => do_not_optimize(tuple.decode(message, plain)));
    bench('Candid to JSON, lossless', () => do_not_optimize(tuple.decode(message, lossless)));
    bench('Candid to JSON, untyped', () => do_not_optimize(codec.untyped.decode(message, lossless)));
    bench('  JSON.stringify alone', () => do_not_optimize(Buffer.from(JSON.stringify(values))));
    bench('  IDL.decode alone', () => do_not_optimize(IDL.decode([...idl], message)));
  });
}

await run();
