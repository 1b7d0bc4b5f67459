/** Accesses beyond a memory or a table: each kind traps with a message about it. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assemble, faultOf, load, replyOf, TestCanister, type Width, WIDTHS } from './engine-fixture.ts';

const REPLY = '(import "ic0" "msg_reply" (func $reply))';
/** Counts in its memory; the rest is given by the case. */
const counter = (more: string): string => `(module ${REPLY}
  (import "ic0" "msg_reply_data_append" (func $append (param PTR PTR)))
  (memory %index 1)
  (func (export "canister_update inc") (i32.store8 (PTR.const 0) (i32.add (i32.load8_u (PTR.const 0)) (i32.const 1)))
    (call $append (PTR.const 0) (PTR.const 1)) (call $reply))
  ${more})`;

const DATA = /heap out of bounds: data segment 1 puts 3 bytes at 65534, the memory begins with 65536/;
const ELEMENTS = /table out of bounds: element segment 0 puts 2 elements at 1 of a table of 2/;
const badData = counter('(data (PTR.const 8) "fits") (data (PTR.const 65534) "abc")');
const badElements = counter('(func $f) (table 2 funcref) (elem (i32.const 1) func $f $f)');

for (const width of WIDTHS) {
  describe(`${width}-bit`, () => {
    const bytes = (text: string): Uint8Array => assemble(width, text);

    for (const [what, text, says] of [
      ['data', badData, DATA],
      ['elements', badElements, ELEMENTS],
    ] as const) {
      test(`a module whose active ${what} do not fit is valid, and traps when it is instantiated`, () => {
        const fresh = new TestCanister({ bytes: bytes(text) });
        assert.match(faultOf(fresh.installed, 'trap'), says);

        const c = new TestCanister({ bytes: bytes(counter('')) });
        assert.equal(replyOf(c.update('inc'))[0], 1);
        const before = c.fingerprint();
        const module = load(bytes(text));
        assert.match(faultOf(c.install(undefined, module), 'trap'), says);
        assert.match(faultOf(c.upgrade({ module }), 'trap'), says);
        assert.equal(c.fingerprint(), before);
        assert.equal(replyOf(c.update('inc'))[0], 2);
      });
    }

    test('data is not placed in a heap that is kept, so it need not fit; elements always are', () => {
      const c = new TestCanister({ bytes: bytes(counter('')) });
      assert.equal(replyOf(c.update('inc'))[0], 1);
      assert.match(faultOf(c.upgrade({ module: load(bytes(badElements)), keepsHeap: true }), 'trap'), ELEMENTS);
      replyOf(c.upgrade({ module: load(bytes(badData)), keepsHeap: true }));
      assert.equal(replyOf(c.update('inc'))[0], 2);
    });

    for (const [operation, text] of Object.entries(bulkOperations(width))) {
      for (const size of width === 64 ? ['-1', String(2n ** 63n - 1n), String(2n ** 33n), '65536'] : ['-1', '65536'])
        test(`${operation} of ${size} bytes is out of bounds, not out of instructions`, () => {
          const c = new TestCanister({
            bytes: bytes(`(module (memory %index 1) (data "passive")
              (func (export "canister_update go") ${text.replace('SIZE', size)}))`),
            policy: { instructionLimit: 100_000 },
          });
          const { outcome } = c.update('go');
          assert.match(faultOf({ ...c.installed, outcome }, 'trap'), /heap out of bounds/);
          assert.ok(outcome.instructions <= 100_000);
        });
    }
  });
}

/** Returns operations to and from addresses that leave no room for a whole memory. */
function bulkOperations(width: Width): Readonly<Record<string, string>> {
  return {
    'memory.copy': `(memory.copy (i${width}.const 0) (i${width}.const 8) (i${width}.const SIZE))`,
    'memory.fill': `(memory.fill (i${width}.const 8) (i32.const 1) (i${width}.const SIZE))`,
    ...(width === 32 ? { 'memory.init': '(memory.init 0 (i32.const 8) (i32.const 0) (i32.const SIZE))' } : {}),
  };
}
