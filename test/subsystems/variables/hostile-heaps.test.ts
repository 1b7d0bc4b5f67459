/** Heaps that no compiler has made: whatever their bytes are, an answer or a reason comes in bounded time and size. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { Canisters } from '../../../subsystems/canisters/index.ts';
import { ANSWER_BYTES_MAX, answerTo, type VariablesRequest } from '../../../subsystems/variables/read-variables.ts';
import { hostOf } from '../../support/host-kernel.ts';
import { startKernel } from '../../support/kernel.ts';
import { compileMotoko } from '../../support/motoko.ts';
import fc, { cases } from '../../support/properties.ts';
import type { TestOwner } from '../../support/server.ts';
import { EVERY_TYPE } from './every-type.ts';

const METADATA = 4.5 * 2 ** 20;
const OBJECTS = 5 * 2 ** 20;
const MS_MAX = 3_000;

/** A copy of an actor's state with something in each of its collections. */
async function copied(owner: TestOwner): Promise<VariablesRequest> {
  const { plugins, config } = await hostOf(['--executors', '1', '--heartbeat-ms', '0'], import.meta.dirname);
  const kernel = await startKernel(owner, plugins, { config, disabled: new Set(['manifest', 'compiler']) });
  const canisters = kernel.get(Canisters);
  const { wasm } = await compileMotoko(EVERY_TYPE);
  const it = await canisters.install('it', wasm, { argument: undefined, caller: Uint8Array.of(4) });
  const update = { kind: 'update', caller: Uint8Array.of(4), addressedBy: 'name' } as const;
  // (300), and ("some text", 50).
  const grown = await canisters.call(it, {
    ...update,
    method: 'grow',
    argument: Buffer.from('4449444c00017dac02', 'hex'),
  });
  const joined = await canisters.call(it, {
    ...update,
    method: 'join',
    argument: Buffer.concat([Buffer.from('4449444c0002717d09', 'hex'), Buffer.from('some text'), Buffer.of(50)]),
  });
  assert.deepEqual([grown.kind, joined.kind], ['reply', 'reply']);
  const { heap, module } = await canisters.copyState(it);
  const signature = Buffer.from(module.metadata.get('motoko:stable-types')?.content ?? []).toString('utf8');
  return { signature, reason: undefined, heap, facts: {}, asked: undefined };
}

const PATHS = [
  'all',
  'cells',
  'map',
  'set',
  'queue',
  'chain',
  'rope',
  'data',
  'deep',
  'fixed',
  'map[7][0]',
  'queue[3].label',
];

/** Asks everything; returns the answers that were no reasons. */
function askAll(request: VariablesRequest): readonly string[] {
  const answers: string[] = [];
  for (const path of [undefined, ...PATHS]) {
    const startedMs = performance.now();
    try {
      const asked = path === undefined ? undefined : { path, from: 0, count: Number.MAX_SAFE_INTEGER };
      const bytes = answerTo({ ...request, asked });
      assert.ok(bytes.length <= ANSWER_BYTES_MAX);
      const text = Buffer.from(bytes).toString('utf8');
      JSON.parse(text);
      answers.push(text);
    } catch (error) {
      assert.ok(error instanceof ServerError, `${String(path)}: ${error instanceof Error ? (error.stack ?? '') : ''}`);
    }
    assert.ok(performance.now() - startedMs < MS_MAX, `${String(path)} took ${performance.now() - startedMs} ms`);
  }
  return answers;
}

const change = fc.record({
  at: fc.nat(),
  how: fc.constantFrom('random', 'copy', 'flip', 'null', 'huge', 'zero', 'itself', 'tag'),
  value: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
});

function mutate(heap: Uint8Array, { at, how, value }: { at: number; how: string; value: bigint }, begin: number): void {
  const view = new DataView(heap.buffer, heap.byteOffset, heap.length);
  const words = Math.floor((heap.length - begin) / 8);
  const place = begin + (at % words) * 8;
  const before = view.getBigUint64(place, true);
  const words64: Readonly<Record<string, bigint>> = {
    random: value,
    copy: view.getBigUint64(begin + Number(value % BigInt(words)) * 8, true),
    flip: before ^ (1n << (value % 64n)),
    null: 0xffff_ffff_ffff_fffbn,
    huge: 2n ** 63n - 1n,
    zero: 0n,
    itself: BigInt(place - 1),
    tag: value % 50n,
  };
  view.setBigUint64(place, words64[how] ?? 0n, true);
}

test('mutated heaps, cut heaps and heaps of noise end in answers or reasons', async (t) => {
  const request = await copied(t);
  assert.equal(askAll(request).length, PATHS.length + 1);
  // Zeros behind the objects would take most of the changes.
  const used = request.heap.findLastIndex((byte) => byte !== 0) + 1;
  const whole = request.heap.slice(0, Math.ceil(used / 8) * 8);
  let answered = 0;
  let refused = 0;
  const check = (changes: readonly Parameters<typeof mutate>[1][], cut: number | null): void => {
    const heap = whole.slice();
    for (const each of changes) mutate(heap, each, OBJECTS);
    const answers = askAll({ ...request, heap: cut === null ? heap : heap.subarray(0, cut % heap.length) });
    answered += answers.length;
    refused += PATHS.length + 1 - answers.length;
  };
  const changes = fc.oneof(
    fc.array(change, { minLength: 1, maxLength: 20 }),
    fc.array(change, { minLength: 1_000, maxLength: 3_000 }),
  );
  fc.assert(fc.property(changes, fc.option(fc.nat(), { freq: 10 }), check), { numRuns: cases(25) });
  assert.ok(answered > 50 && refused > 50, `${answered} answers, ${refused} reasons`);

  const noise = whole.slice();
  for (let at = OBJECTS; at < noise.length; at++) noise[at] = (at * 2_654_435_761) >>> 13;
  askAll({ ...request, heap: noise });
  askAll({ ...request, heap: new Uint8Array(0) });
  askAll({ ...request, heap: new Uint8Array(METADATA + 100) });
});

test('a heap of another layout, and a signature that cannot be read, give the reason', async (t) => {
  const request = await copied(t);
  const heap = request.heap.slice();
  new DataView(heap.buffer).setBigUint64(METADATA + 128, 2n, true);
  const listOf = (of: VariablesRequest): { readonly reason: string | null; readonly variables: readonly unknown[] } =>
    JSON.parse(Buffer.from(answerTo(of)).toString('utf8')) as never;
  assert.match(listOf({ ...request, heap }).reason ?? '', /has layout 2; this server reads layout 1/);
  assert.equal(listOf({ ...request, heap }).variables.length > 10, true);
  heap.fill(0, METADATA, METADATA + 128);
  assert.match(listOf({ ...request, heap }).reason ?? '', /no mark of enhanced persistence/);
  for (const signature of ['', 'actor {', '}', 'actor { stable var x }', `actor {${'{'.repeat(10_000)}`])
    assert.equal(listOf({ ...request, signature }).variables.length, 0, signature);
  for (const type of [
    'T',
    'T<T<Nat>>',
    '?',
    '[',
    '(Nat, ',
    'async* Nat',
    '<',
    'weak',
    '#x',
    'Map<',
    '-> ->',
    '{var}',
  ]) {
    const signature = `type T = T; type U<A> = U<(A, A)>; actor { stable var chain : ${type} }`;
    try {
      answerTo({ ...request, signature, asked: { path: 'chain', from: 0, count: 10 } });
    } catch (error) {
      assert.ok(error instanceof ServerError, `${type}: ${String(error)}`);
    }
  }
});
