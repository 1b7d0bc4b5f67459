import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import type { ActorReference } from '../../../subsystems/compiler/index.ts';
import { createCompiler } from '../../../subsystems/compiler/motoko-compiler.ts';
import { MOTOKO_CACHE } from '../../support/caches.ts';

const LEDGER = {
  principal: 'bkyz2-fmaaa-aaaaa-qaaaq-cai',
  candid: 'type R = record { a : nat }; service : (nat) -> { put : (R) -> (nat); get : () -> (nat) query }',
};
const OTHER_PRINCIPAL = 'bd3sg-teaaa-aaaaa-qaaba-cai';

const one = createCompiler({ cacheDirectory: MOTOKO_CACHE, processesMax: 1 });
after(() => one.close());

const CALLER =
  'import L "canister:ledger"; persistent actor { public func f() : async Nat { await L.put({ a = 1 }) } }';
const files = (source: string): Map<string, string> => new Map([['Main.mo', source]]);
const finding = (reference: ActorReference) => async (): Promise<ActorReference> => reference;

test('an actor is imported by name with its interface and its principal', async () => {
  const asked: string[] = [];
  const { wasm, candid } = await one.compileText(
    new Map([
      ['Main.mo', CALLER.replace('import', 'import M "./lib"; import')],
      ['lib.mo', 'import { get } "canister:ledger"; module { public func g() : async Nat { await get() } }'],
    ]),
    {
      importActor: async (name) => {
        asked.push(name);
        return LEDGER;
      },
    },
  );
  assert.deepEqual(asked, ['ledger']);
  assert.match(candid, /f: \(\) -> \(nat\)/u);
  const id = Buffer.from('80000000001000010101', 'hex');
  assert.ok(Buffer.from(wasm).includes(id), 'the module holds the id it calls');
});

test('the principal and the interface of an imported actor are part of what a cached module is known by', async () => {
  const compile = (reference: ActorReference): Promise<{ wasm: Uint8Array; isCached: boolean }> =>
    one.compileText(files(CALLER), { importActor: finding(reference) });
  const first = await compile(LEDGER);
  assert.equal((await compile(LEDGER)).isCached, true);
  const moved = await compile({ ...LEDGER, principal: OTHER_PRINCIPAL });
  assert.notDeepEqual(moved.wasm, first.wasm);
  await assert.rejects(
    compile({ ...LEDGER, candid: 'service : { get : () -> (nat) query }' }),
    /field put does not exist/u,
  );
  assert.deepEqual((await compile(LEDGER)).wasm, first.wasm);
});

test('an actor that cannot be found is an error at the place of its import', async () => {
  const importActor = (name: string): Promise<ActorReference> =>
    Promise.reject(new ServerError('invalid', 'nope', `who is ${name}?`));
  await assert.rejects(one.compileText(files(`\n${CALLER}`), { importActor }), {
    message: `Main.mo does not compile (1 error)
Main.mo:2.10-2.27: import error: who is ledger?
   2 | ${CALLER}
     |          ^^^^^^^^^^^^^^^^^`,
  });
  const unforeseen = (): Promise<ActorReference> => Promise.reject(new TypeError('a bug'));
  await assert.rejects(one.compileText(files(CALLER), { importActor: unforeseen }), TypeError);
});

test('of many imports that find nothing, files and actors, a screenful is shown and all are counted', async () => {
  const imports = (url: string): string => Array.from({ length: 40 }, (_, k) => `import "${url}${k}";\n`).join('');
  const source = `${imports('canister:a')}${imports('./f')}actor {}`;
  await assert.rejects(one.compileText(files(source)), ({ message }: Error) => {
    assert.match(message, /^Main\.mo does not compile \(80 errors\)\n/u);
    assert.match(message, /\n… and 30 more$/u);
    assert.equal(message.match(/import error/gu)?.length, 50);
    return true;
  });
  const unknown = Array.from({ length: 60 }, (_, k) => `import "mo:core/None${k}";\n`).join('');
  await assert.rejects(one.compileText(files(`${unknown}persistent actor {}`)), ({ message }: Error) => {
    assert.match(message, /\(60 errors\)\n[^]*mo:core has no module None49[^]*\n… and 10 more$/u);
    return true;
  });
});

test('an interface that Motoko cannot use is reported with the name of its actor', async () => {
  const compile = (candid: string): Promise<unknown> =>
    one.compileText(files(CALLER), { importActor: finding({ ...LEDGER, candid }) });
  await assert.rejects(compile('service : { bad }'), /interface of ledger:1\.17-1\.18: syntax error/u);
  await assert.rejects(
    compile('service : { "odd name" : () -> () }'),
    /interface of ledger:.*not a valid Motoko identifier/u,
  );
});
