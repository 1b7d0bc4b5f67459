/** The changes in moc's program do not change its output. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { adaptedProgram } from '../../../subsystems/compiler/adapted-program.ts';
import { mocProgramFile } from '../../../subsystems/compiler/core-package.ts';
import { SOURCE_MAP_TEST } from '../../../subsystems/compiler/known-program.ts';
import { runMoc } from '../../../subsystems/compiler/moc-instance.ts';
import type { CompileRequest } from '../../../subsystems/compiler/moc-protocol.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const program = mocProgramFile();
const text = readFileSync(program, 'utf8');

test('the program that is installed is the one that is known, and it is found where it makes a source map', () => {
  assert.notEqual(adaptedProgram(text), text, 'the npm package motoko is another one: npm run build:known-program');
  assert.equal(text.split(SOURCE_MAP_TEST ?? '').length, 2, 'see SOURCE_MAP in .ci/known-program.ts');
});

test('another program runs as it is', () => {
  assert.equal(adaptedProgram(`${text} `), `${text} `);
});

test('an actor is compiled to the bytes that the program as npm has it makes', async () => {
  const plain = join(await temporaryDirectory(), 'moc.js');
  writeFileSync(plain, `${text} `);
  const source =
    'import Step "lib/Step"; persistent actor { var n = 0; let m = [Step.first(0)]; ' +
    'public func put(n : Nat) : async ?Text { switch (Step.next(m, n)) { case (?k) ?debug_show k; case null null } } };';
  const library =
    'module { public func first(n : Nat) : Nat { n + 1 }; ' +
    'public func next<T>(all : [T], n : Nat) : ?T { if (n < all.size()) ?all[n] else null } };';
  for (const persistence of ['enhanced', 'classical'] as const) {
    const request: Omit<CompileRequest, 'program'> = {
      kind: 'compile',
      main: 'Main.mo',
      files: new Map([
        ['Main.mo', source],
        ['lib/Step.mo', library],
      ]),
      blobs: new Map(),
      packages: new Map(),
      actors: [],
      persistence,
      flags: [],
      collector: undefined,
      publicMetadata: [],
    };
    // The results are copied, since each run has arrays of its own V8 context.
    const expected = structuredClone(runMoc({ ...request, program: plain }));
    assert.equal(expected.kind, 'compiled', JSON.stringify(expected));
    assert.deepEqual(structuredClone(runMoc({ ...request, program })), expected);
  }
});
