/** Names that the instrumenter gives to the module's own functions, for stacks of traps. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { instrument } from '../../../subsystems/instrument/index.ts';
import { ByteReader, ByteWriter, decodeModule, validateCanister } from '../../../subsystems/wasm/index.ts';
import { seeded } from '../../support/seeded.ts';
import { wat } from '../../support/wat.ts';

/** Functions besides the imports: svc.yield and svc.room come first. */
const HOST_FUNCTIONS = 2;
const TEXT = `(module
  (import "ic0" "msg_reply" (func $reply))
  (func $inner (call $reply))
  (func $outer (call $inner))
  (func (export "canister_update run") (call $outer)))`;

type Names = readonly (readonly [number, string | Uint8Array])[];

function sectionOf(names: Names): Uint8Array {
  const entries = new ByteWriter();
  entries.unsigned(names.length);
  for (const [index, name] of names) {
    entries.unsigned(index);
    if (typeof name === 'string') entries.name(name);
    else {
      entries.unsigned(name.length);
      entries.append(name);
    }
  }
  const content = new ByteWriter();
  content.name('name');
  content.byte(1);
  content.unsigned(entries.length);
  content.append(entries.written());
  return content.written().slice();
}

/** Returns the module with one more custom section. */
function withSection(bytes: Uint8Array, content: Uint8Array): Uint8Array {
  const out = new ByteWriter();
  out.append(bytes);
  out.byte(0);
  out.unsigned(content.length);
  out.append(content);
  return out.written().slice();
}

/** Returns the names in the instrumented module, by the index that the function has in the original. */
function namesOf(bytes: Uint8Array): Map<number, string> {
  const module = decodeModule(bytes);
  validateCanister(module);
  const { bytes: instrumented } = instrument(module);
  const [section, ...more] = WebAssembly.Module.customSections(new WebAssembly.Module(instrumented.slice()), 'name');
  assert.ok(section !== undefined && more.length === 0);
  const r = new ByteReader(new Uint8Array(section), 'name section');
  assert.equal(r.byte(), 1);
  assert.equal(r.u32(), r.end - r.position);
  const names = new Map<number, string>();
  for (let count = r.u32(); count > 0; count--) {
    const index = r.u32();
    names.set(index - HOST_FUNCTIONS, r.name());
  }
  assert.ok(r.isAtEnd);
  assert.deepEqual(
    [...names.keys()],
    Array.from(module.bodyStart, (_, body) => module.importedFunctionCount + body),
    'each function of the module has a name, and none of the instrumenter',
  );
  return names;
}

test('a function has the name of the name section, else of its export, else its number', () => {
  const bytes = wat(TEXT);
  assert.deepEqual([...namesOf(bytes).values()], ['function 1', 'function 2', 'canister_update run']);
  const named = withSection(
    bytes,
    sectionOf([
      [0, 'reply'],
      [2, 'Main.outer'],
      [3, 'run'],
    ]),
  );
  assert.deepEqual([...namesOf(named).values()], ['function 1', 'Main.outer', 'run']);
});

test('a name is one line of at most 120 characters', () => {
  const escape = '\u001b[31mred\n\u2028\u0085name\u0000\u202e\uffff';
  const names = sectionOf([
    [1, escape],
    [2, 'long'.repeat(1000)],
    [3, ''],
  ]);
  const [first, second, third] = namesOf(withSection(wat(TEXT), names)).values();
  assert.equal(first, '?[31mred???name???');
  assert.equal(second, `${'long'.repeat(30)}…`);
  assert.equal(third, 'canister_update run', 'no name is none');
  const cutWithin = sectionOf([[1, `${'a'.repeat(119)}😀b`]]);
  assert.equal([...namesOf(withSection(wat(TEXT), cutWithin)).values()][0], `${'a'.repeat(119)}?…`);
});

test('a name section that is damaged gives the names before the damage', () => {
  const isNoText = Uint8Array.of(0xff, 0xfe);
  const damaged = sectionOf([
    [1, 'inner'],
    [2, isNoText],
    [3, 'run'],
  ]);
  assert.deepEqual(
    [...namesOf(withSection(wat(TEXT), damaged)).values()],
    ['inner', 'function 2', 'canister_update run'],
  );
  const whole = sectionOf([
    [1, 'inner'],
    [2, 'outer'],
    [3, 'run'],
  ]);
  const random = seeded(1);
  for (let k = 0; k < 200; k++) {
    const bytes = whole.slice();
    // Behind the section's own name.
    for (let flips = random.below(4); flips >= 0; flips--)
      bytes[5 + random.below(bytes.length - 5)] = random.below(256);
    for (const name of namesOf(withSection(wat(TEXT), bytes)).values())
      assert.ok(name.length > 0 && name.length <= 121);
  }
});

test('as many functions as a module may have take a megabyte, about', () => {
  const count = 50_000;
  // Half of them have names of the module's own.
  const names = Array.from({ length: count / 2 }, (_, index) => [index, `n${index}`.padEnd(32, '.')] as const);
  const given = namesOf(withSection(wat(`(module ${'(func)'.repeat(count)})`), sectionOf(names)));
  assert.equal(given.get(7), 'n7'.padEnd(32, '.'));
  assert.equal(given.get(count - 1), `function ${count - 1}`);
  assert.ok(Array.from(given.values()).join('').length < 1.25 * 1024 * 1024);
});
