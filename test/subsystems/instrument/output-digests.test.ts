/**
 * Output of the instrumenter, byte for byte, as digests: fixtures, shapes of stacks, and random modules of both widths.
 * golden.test.ts shows changes; this test shows that there are none, in modules that nobody reads. Stored modules of
 * actors are instrumented again after a start, so a change here is a new version of the code (code-version.ts). After a
 * wanted change: `node --test --test-update-snapshots test/subsystems/instrument/output-digests.test.ts`.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { instrument } from '../../../subsystems/instrument/index.ts';
import { decodeModule, validateCanister } from '../../../subsystems/wasm/index.ts';
import { randomModule } from '../../support/random-module.ts';
import { wat } from '../../support/wat.ts';
import { STACK_SHAPES } from './stack-shapes.ts';

const RANDOM_MODULES = 48;
/** Number of modules that share a line of the recorded text. */
const RANDOM_PER_LINE = 4;
const folder = new URL('../../fixtures/instrument/', import.meta.url);

function instrumented(text: string): Buffer {
  const module = decodeModule(wat(text));
  validateCanister(module);
  const { bytes, layout } = instrument(module);
  const described = JSON.stringify(layout, (_key, value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString('hex') : typeof value === 'bigint' ? `${value}` : value,
  );
  return Buffer.concat([bytes, Buffer.from(described)]);
}

const digestOf = (outputs: readonly Buffer[]): string =>
  outputs.reduce((hash, output) => hash.update(output), createHash('sha256')).digest('hex');

test('instrumented modules are byte for byte as recorded', (t) => {
  const inputs = readdirSync(folder).filter((name) => name.endsWith('.wat') && !name.endsWith('.out.wat'));
  assert.ok(inputs.length >= 6);
  const lines = inputs.map((name) => [name, digestOf([instrumented(readFileSync(new URL(name, folder), 'utf8'))])]);
  for (const [name, text] of Object.entries(STACK_SHAPES)) lines.push([name, digestOf([instrumented(text)])]);
  for (let seed = 0; seed < RANDOM_MODULES; seed += RANDOM_PER_LINE) {
    const seeds = Array.from({ length: RANDOM_PER_LINE }, (_, k) => seed + k);
    const name = `random modules ${seed} to ${seed + RANDOM_PER_LINE - 1}`;
    lines.push([name, digestOf(seeds.map((each) => instrumented(randomModule(each).text)))]);
  }
  const recorded = lines.map(([name, digest]) => `${digest}  ${name}\n`).join('');
  t.assert.fileSnapshot(recorded, fileURLToPath(new URL('digests.txt', folder)), { serializers: [String] });
});

test('one more instruction is another digest', () => {
  const text = readFileSync(new URL('calls.wat', folder), 'utf8');
  const changed = text.replace(/\)\s*$/u, '\n  (func nop))');
  assert.notEqual(changed, text);
  assert.notEqual(digestOf([instrumented(text)]), digestOf([instrumented(changed)]));
});
