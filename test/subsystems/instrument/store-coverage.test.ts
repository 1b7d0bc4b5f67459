/**
 * Places where the test of a page must not be left out. Each case writes to pages 0 and 3; without a test, page 3 is
 * missing from the dirty set and from the undo. Random modules seldom reach some of these rules, so each has a case of
 * its own.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { Instance } from '../../../subsystems/execution/engine/instance.ts';
import { instrument } from '../../../subsystems/instrument/index.ts';
import { decodeModule } from '../../../subsystems/wasm/index.ts';
import { CONTROL_OPTIONS, prepare } from '../../support/bare-canister.ts';
import { wat, watOf } from '../../support/wat.ts';

const STORE_P = '(i32.store (local.get $p) (i32.const 1))';
const STORE_G = '(i32.store (global.get $g) (i32.const 1))';
const FAR = '(i32.const 12288)';
/** Computes 1 in a way that the pass does not see. */
const TRUE = '(i32.eqz (i32.load (i32.const 60000)))';

const CASES: Readonly<Record<string, string>> = {
  'a local that a loop changes': `${STORE_P} (loop ${STORE_P}
    (br_if 0 (i32.eq (local.tee $p (i32.add (local.get $p) ${FAR})) ${FAR})))`,
  'an operand from a local that a block changes': `${STORE_P} (local.get $p) (block (local.set $p ${FAR})) (drop) ${STORE_P}`,
  'a local changed in one arm': `${STORE_P} (if ${TRUE} (then (local.set $p ${FAR}))) ${STORE_P}`,
  'a local changed in the other arm': `${STORE_P} (if (i32.eqz ${TRUE}) (then (nop)) (else (local.set $p ${FAR}))) ${STORE_P}`,
  'a test in an arm that was not taken': `${STORE_P} (local.set $p ${FAR}) (if (i32.eqz ${TRUE}) (then ${STORE_P})) ${STORE_P}`,
  'a test that a branch jumped over': `${STORE_P} (local.set $p ${FAR}) (block (br_if 0 ${TRUE}) ${STORE_P}) ${STORE_P}`,
  'a test that a branch jumped over, out of two blocks': `${STORE_P} (local.set $p ${FAR})
    (block (block (br_if 1 ${TRUE})) ${STORE_P}) ${STORE_P}`,
  'a test that a table of branches jumped over': `${STORE_P} (local.set $p ${FAR})
    (block (block (br_table 0 1 ${TRUE})) ${STORE_P}) ${STORE_P}`,
  'a test in one of two arms': `${STORE_P} (local.set $p ${FAR}) (if ${TRUE} (then (nop)) (else ${STORE_P})) ${STORE_P}`,
  'tests of different places in both arms': `${STORE_P} (local.set $p ${FAR}) (if ${TRUE} (then (i32.store offset=8192 (local.get $p) (i32.const 1)))
    (else ${STORE_P})) ${STORE_P}`,
  'a test in an arm, the other one ends with a branch to the end of both': `${STORE_P} (local.set $p ${FAR})
    (if ${TRUE} (then (br 0)) (else ${STORE_P})) ${STORE_P}`,
  'the same with arms the other way round': `${STORE_P} (local.set $p ${FAR})
    (if (i32.eqz ${TRUE}) (then ${STORE_P}) (else (br_if 0 ${TRUE}) (unreachable))) ${STORE_P}`,
  'a test in an arm, the other one goes on behind a block': `${STORE_P} (local.set $p ${FAR})
    (if ${TRUE} (then (block (br_if 0 ${TRUE}) (unreachable))) (else ${STORE_P})) ${STORE_P}`,
  'a test in an arm, the other one goes on behind an if': `${STORE_P} (local.set $p ${FAR})
    (if ${TRUE} (then (if (i32.eqz ${TRUE}) (then (unreachable)))) (else ${STORE_P})) ${STORE_P}`,
  'a test in an arm, the other one goes on behind two arms': `${STORE_P} (local.set $p ${FAR})
    (if ${TRUE} (then (if ${TRUE} (then (nop)) (else (unreachable)))) (else ${STORE_P})) ${STORE_P}`,
  'a test in an arm, the other one goes on behind an arm that branches there': `${STORE_P} (local.set $p ${FAR})
    (if ${TRUE} (then (if ${TRUE} (then (br 0)) (else (unreachable)))) (else ${STORE_P})) ${STORE_P}`,
  'a test of a local that each arm sets': `${STORE_P} (if ${TRUE} (then (local.set $p (i32.const 64)) ${STORE_P} (local.set $p ${FAR}))
    (else (local.set $p (i32.const 64)) ${STORE_P})) ${STORE_P}`,
  'a local set before a branch out of a block': `${STORE_P} (block (local.set $p ${FAR}) (br_if 0 ${TRUE}) (local.set $p (i32.const 0))) ${STORE_P}`,
  'a local that one arm changes and the other has from before': `${STORE_P} (if ${TRUE} (then (local.set $p ${FAR})) (else (nop))) ${STORE_P}`,
  'a local with its old value on the way that was not taken': `${STORE_P} (local.set $q (local.get $p))
    (block (local.set $p ${FAR}) (br_if 0 ${TRUE}) (local.set $p (local.get $q))) ${STORE_P}`,
  'a global that was set': `${STORE_G} (global.set $g ${FAR}) ${STORE_G}`,
  'a global that a call set': `${STORE_G} (call $move) ${STORE_G}`,
  'a global that an indirect call set': `${STORE_G} (call_indirect (i32.const 0)) ${STORE_G}`,
  'a global set in an arm': `${STORE_G} (if ${TRUE} (then (global.set $g ${FAR}))) ${STORE_G}`,
  'a global set in the arm before else': `${STORE_G} (if ${TRUE} (then (global.set $g ${FAR})) (else ${STORE_G})) ${STORE_G}`,
  'a global set in a block': `${STORE_G} (block (global.set $g ${FAR}) (br_if 0 ${TRUE}) (global.set $g (i32.const 0))) ${STORE_G}`,
  'a global that a loop changes': `${STORE_G} (loop ${STORE_G}
    (global.set $g (i32.add (global.get $g) ${FAR})) (br_if 0 (i32.eq (global.get $g) ${FAR})))`,
  'a global that a call in a loop changes': `${STORE_G} (loop ${STORE_G} (call $move)
    (br_if 0 (i32.le_u (local.tee $q (i32.add (local.get $q) (i32.const 1))) (i32.const 1))))`,
  'an index shifted twice': `${STORE_P} (local.set $q (i32.const 384)) (i32.store (i32.shl (local.get $q) (i32.const 1)) (i32.const 1))
    (i32.store (i32.shl (local.get $q) (i32.const 5)) (i32.const 1))`,
  'a product with a factor': `(local.set $q (i32.load (i32.const 0))) (i32.store (i32.mul (local.get $q) (i32.const 2)) (i32.const 0))
    (i32.store (i32.add (i32.mul (local.get $q) (i32.const 2)) (i32.const 8)) (i32.const 1))
    (i32.store (i32.mul (i32.add (local.get $q) (i32.const 4096)) (i32.const 3)) (i32.const 1))`,
  'a difference the other way round': `(i32.store (i32.const 60000) (i32.const 4000))
    (local.set $q (i32.load (i32.const 60000))) (local.set $p (i32.load (i32.const 60004)))
    (i32.store (i32.add (i32.sub (local.get $p) (local.get $q)) (i32.const 4050)) (i32.const 1))
    (i32.store (i32.add (i32.sub (local.get $q) (local.get $p)) (i32.const 4050)) (i32.const 1))`,
  'the end of the window': `${STORE_P} (i32.store offset=252 (local.get $p) (i32.const 1)) (i32.store offset=12288 (local.get $p) (i32.const 1))`,
  'a page remembered in the loop before': `(loop ${STORE_P} (br_if 0 (i32.lt_u (local.tee $p (i32.add (local.get $p) (i32.const 4))) (i32.const 64))))
    (local.set $p ${FAR})
    (loop ${STORE_P} (br_if 0 (i32.lt_u (local.tee $p (i32.add (local.get $p) (i32.const 4))) (i32.const 12352))))`,
};

describe('a page test is not left out after', () => {
  const control = new ControlMemory(CONTROL_OPTIONS);
  for (const [name, body] of Object.entries(CASES)) {
    it(name, () => {
      const code = prepare(
        wat(`(module (memory 1) (table 1 funcref) (elem (i32.const 0) $move) (global $g (mut i32) (i32.const 0))
          (func $move (global.set $g ${FAR}))
          (func (export "canister_update f") (local $p i32) (local $q i32) ${body}))`),
      );
      const instance = Instance.create(code, {}, control);
      // Bytes other than zeros have pre-images.
      instance.begin(1e6);
      instance.touch(16_384, 4096);
      instance.heap().fill(0x55, 16_384, 20_480);
      instance.commit();
      const before = instance.heap().slice();
      instance.begin(1e6);
      assert.equal(instance.run(0), undefined);
      const dirty = new Set(instance.dirtyPages());
      const heap = instance.heap();
      let changed = 0;
      for (let page = 0; page < 16; page++) {
        const isChanged =
          Buffer.compare(
            heap.subarray(page * 4096, (page + 1) * 4096),
            before.subarray(page * 4096, (page + 1) * 4096),
          ) !== 0;
        if (!isChanged) continue;
        changed++;
        assert.ok(dirty.has(page), `page ${page} changed`);
      }
      assert.ok(changed >= 2, 'the case writes to two pages');
      instance.rollback();
      assert.deepEqual(instance.heap(), before);
    });
  }
});

describe('page tests that are left out', () => {
  const tests = (body: string): number => {
    const text = watOf(
      instrument(
        decodeModule(
          wat(
            `(module (memory 1) (global $g (mut i32) (i32.const 0)) (func (export "canister_update f") (local $p i32) (local $q i32) ${body}))`,
          ),
        ),
      ).bytes,
    );
    return (text.slice(text.indexOf('  (func (;2;)'), text.indexOf('  (func (;3;)')).match(/i32\.load8_u 1/g) ?? [])
      .length;
  };

  it('are those of neighbours, whatever the address is computed from', () => {
    assert.equal(
      tests(
        `${STORE_P} (i32.store offset=4 (local.get $p) (i32.const 1)) (i32.store (i32.add (local.get $p) (i32.const 100)) (i32.const 1))`,
      ),
      1,
    );
    assert.equal(tests(`${STORE_G} (i32.store offset=8 (global.get $g) (i32.const 1))`), 1);
    const element = (k: number): string =>
      `(i32.store (i32.add (global.get $g) (i32.shl (i32.add (local.get $p) (i32.const ${k})) (i32.const 3))) (i32.const 1))`;
    assert.equal(tests(`${element(0)} ${element(1)} ${element(5)}`), 1);
    assert.equal(tests(`${element(0)} ${element(40)}`), 2);
  });
});
