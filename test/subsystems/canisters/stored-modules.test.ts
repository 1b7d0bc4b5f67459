/** Uses of modules within units: modules that are put, deleted, or neither. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { StoredModules } from '../../../subsystems/canisters/stored-modules.ts';
import { applyWriteBatch, WriteBatch } from '../../../subsystems/storage/write-batch.ts';

const A = 'aa'.repeat(32);
const B = 'bb'.repeat(32);
const WASM = { [A]: Uint8Array.of(1), [B]: Uint8Array.of(2) };

type Name = typeof A | undefined;
type Change = readonly [before: Name, after: Name];

/** Returns one unit's operations in order, as the store writes them. */
function unit(modules: StoredModules, ...changes: readonly Change[]): readonly string[] {
  const batch = new WriteBatch();
  for (const [before, after] of changes)
    modules.replace(batch, before, after, after === undefined ? undefined : WASM[after]);
  modules.deleteUnused(batch);
  const found: string[] = [];
  const key = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex').slice(0, 1);
  const unexpected = (): never => assert.fail('only puts and deletions were expected');
  applyWriteBatch(batch.take(), {
    put: (family, bytes) => void found.push(`put ${family} ${key(bytes)}`),
    delete: (family, bytes) => void found.push(`delete ${family} ${key(bytes)}`),
    clear: unexpected,
    patch: unexpected,
  });
  return found;
}

suite('stored modules', () => {
  test('a module is put with its first use and deleted with its last', () => {
    const modules = new StoredModules();
    assert.deepEqual(unit(modules, [undefined, A]), ['put module a']);
    assert.deepEqual(unit(modules, [undefined, A], [A, A]), []);
    assert.deepEqual(unit(modules, [A, B]), ['put module b']);
    assert.deepEqual(unit(modules, [A, undefined]), ['delete module a']);
    assert.deepEqual(unit(modules, [B, A]), ['put module a', 'delete module b']);
    assert.deepEqual(unit(modules, [A, undefined]), ['delete module a']);
    assert.deepEqual(unit(modules), []);
  });

  test('a last use that is followed by another one within the unit is none', () => {
    const modules = new StoredModules();
    unit(modules, [undefined, A], [undefined, B]);
    assert.deepEqual(unit(modules, [A, B], [B, A]), [], 'two exchange their modules');
    assert.deepEqual(unit(modules, [A, undefined], [undefined, A]), []);
    assert.deepEqual(unit(modules, [B, undefined], [A, B]), ['delete module a']);
    assert.deepEqual(unit(modules, [undefined, A], [A, undefined]), ['put module a', 'delete module a']);
  });

  test('each first use is told, whoever brings it, and each deletion', () => {
    const told: string[] = [];
    const modules = new StoredModules((hash, isStored) => told.push(`${isStored ? '+' : '-'}${hash.slice(0, 1)}`));
    for (const hash of [A, A]) modules.recovered(hash);
    unit(modules, [undefined, B], [A, B], [A, undefined]);
    assert.deepEqual(told.splice(0), ['+a', '+b', '-a']);
    unit(modules, [B, undefined], [undefined, B]);
    unit(modules, [B, undefined], [B, undefined]);
    assert.deepEqual(told, ['-b']);
  });

  test('what was there is not put again, and what cannot be read is', () => {
    const modules = new StoredModules();
    for (const hash of [A, A, B]) modules.recovered(hash);
    modules.isPresent(A);
    assert.deepEqual(unit(modules, [A, A], [undefined, A]), []);
    assert.deepEqual(unit(modules, [undefined, B]), ['put module b'], 'another canister brings its bytes');
    assert.deepEqual(unit(modules, [B, undefined], [B, undefined], [A, undefined]), ['delete module b']);
  });

  test('a module that is found without a use goes with the next unit, unless that uses it', () => {
    const modules = new StoredModules();
    modules.recovered(A);
    assert.equal(modules.found(A), false);
    assert.equal(modules.found(B), true);
    assert.deepEqual(unit(modules), ['delete module b']);
    modules.found(B);
    assert.deepEqual(unit(modules, [undefined, B]), ['put module b']);
    assert.equal(modules.found(B), false);
    assert.deepEqual(unit(modules), []);
  });
});
