/** Imports as the compiler's parser reads them: the same from a file's head and from the whole file. */
import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { mocProgramFile, readCorePackage } from '../../../subsystems/compiler/core-package.ts';
import { CompilerImportParser } from '../../../subsystems/compiler/import-parser.ts';
import { scanImports } from '../../../subsystems/compiler/import-scanner.ts';
import type { MocRequest, MocResponse } from '../../../subsystems/compiler/moc-protocol.ts';
import { MOC_PROCESSES_DEFAULTS, MocProcesses } from '../../../subsystems/compiler/moc-processes.ts';

/** The compiler's processes, with a count of their requests. */
class CountedProcesses {
  readonly #processes = new MocProcesses({ ...MOC_PROCESSES_DEFAULTS, processesMax: 1 });
  readonly texts: string[] = [];

  run(request: MocRequest): Promise<MocResponse> {
    if (request.kind === 'imports') this.texts.push(...request.texts);
    return this.#processes.run(request);
  }
  close(): Promise<void> {
    return this.#processes.close();
  }
}

describe('the imports of a file', () => {
  const threads = new CountedProcesses();
  after(() => threads.close());
  const urlsOf = async (...texts: string[]): Promise<string[][]> =>
    (await new CompilerImportParser(threads).importsOf(texts)).map((imports) => imports.map(({ url }) => url));

  it('are those of the whole file, for each module of the library', async () => {
    const core = await readCorePackage();
    // The test takes one file in seven: parsing them whole takes a second for half a megabyte.
    const texts = [...core.filesFor(core.modules).values()].filter((_, k) => k % 7 === 0);
    assert.ok(texts.length >= 7);
    const response = await threads.run({ kind: 'imports', program: mocProgramFile(), texts });
    assert.ok(response.kind === 'imports');
    const whole = response.imports.map((imports) => imports?.map(({ url }) => url));
    threads.texts.length = 0;
    assert.deepEqual(await urlsOf(...texts), whole);
    assert.ok(threads.texts.join('').length < texts.join('').length / 20, 'only heads were parsed');
    assert.deepEqual(
      texts.map((text) => scanImports(text).map(({ url }) => url)),
      whole,
    );
  });

  it('are read with comments, escapes, patterns and characters of any width', async () => {
    const text = `/* é /* nested */ */ import A "./a"; // import No "no"
      import { x; y } "mo:foo/\\u{41}x" ; import C = "canister:led"; import D "mo:⛔";
      import F "blob:file:x.bin"; import "ic:aaaaa-aa"; import Ü "ünter/⛔";
      module { public let importance = "import" }`;
    const expected = ['./a', 'mo:foo/Ax', 'canister:led', 'mo:⛔', 'blob:file:x.bin', 'ic:aaaaa-aa', 'ünter/⛔'];
    assert.deepEqual(await urlsOf(text.replace('import Ü', 'import U').replace('import "ic', 'import I "ic')), [
      expected,
    ]);
  });

  it('of a file that the parser refuses are those that the scanner sees', async () => {
    assert.deepEqual(await urlsOf('import A "./a" modul { };;;', 'import A "./a"; import ;', '/* open'), [
      ['./a'],
      ['./a'],
      [],
    ]);
  });

  it('are asked for once, as long as the head stays the same', async () => {
    const parser = new CompilerImportParser(threads);
    threads.texts.length = 0;
    const [first] = await parser.importsOf(['import A "./once";\nmodule { }']);
    const [second] = await parser.importsOf(['import A "./once";\nmodule { let more = 1 }']);
    assert.deepEqual(second, first);
    assert.deepEqual(threads.texts, ['import A "./once"']);
  });

  it('have places of their own where the scanner stopped too early', async () => {
    // The scanner does not take an unknown declaration for an import.
    const text = 'import A "./a";\nimport B "./ü"; import (implicit) C "./c";\nmodule {}';
    const [imports] = await new CompilerImportParser(threads).importsOf([text]);
    for (const { url, start } of imports ?? []) assert.ok(text.slice(start).includes(url));
  });
});
