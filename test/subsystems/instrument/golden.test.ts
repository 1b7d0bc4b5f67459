/**
 * Instructions that the instrumenter injects, as text: test/fixtures/instrument/*.wat in, the module's own functions
 * and sections out. After a wanted change: `node --test --test-update-snapshots
 * test/subsystems/instrument/golden.test.ts`, and read the diff.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, it } from 'node:test';
import { instrument } from '../../../subsystems/instrument/index.ts';
import { decodeModule, validateCanister } from '../../../subsystems/wasm/index.ts';
import { wat, watOf } from '../../support/wat.ts';

const folder = new URL('../../fixtures/instrument/', import.meta.url);
const inputs = readdirSync(folder).filter((name) => name.endsWith('.wat') && !name.endsWith('.out.wat'));

/** Returns one function or field a paragraph; helpers that are the same in every module only in `sections`. */
function shown(text: string, functions: { readonly first: number; readonly end: number }, all: boolean): string {
  if (all) return text;
  let isShown = false;
  const lines = text.split('\n').filter((line) => {
    const match = /^ {2}\(func \(;(\d+);\)/.exec(line);
    if (match !== null) isShown = Number(match[1]) >= functions.first && Number(match[1]) < functions.end;
    else if (/^ {2}\(/.test(line)) isShown = false;
    return isShown;
  });
  return `${lines.join('\n')}\n`;
}

describe('golden instrumentation', () => {
  it('has inputs', () => assert.ok(inputs.length >= 6));

  for (const input of inputs) {
    it(`of ${input} is as recorded`, (t) => {
      const module = decodeModule(wat(readFileSync(new URL(input, folder), 'utf8')));
      validateCanister(module);
      const { bytes, layout } = instrument(module);
      assert.ok(WebAssembly.validate(bytes));
      const isWhole = input === 'sections.wat';
      // The module's own functions and, behind them, the adapters of its imports.
      const functions = {
        // svc.yield and svc.room stand behind the module's own imports.
        first: module.importedFunctionCount + 2,
        end: module.functionTypes.length + 2 + module.importedFunctionCount,
      };
      const data = layout.data
        .map(({ offset, bytes: content }) => `;; data at ${offset}: ${Buffer.from(content).toString('latin1')}\n`)
        .join('');
      const output = `${data};; entries: ${layout.entries.join(', ')}\n${shown(watOf(bytes), functions, isWhole)}`;
      t.assert.fileSnapshot(output, fileURLToPath(new URL(input.replace('.wat', '.out.wat'), folder)), {
        serializers: [String],
      });
    });
  }
});
