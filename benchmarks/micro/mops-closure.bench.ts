/**
 * Measures the closure of a project of 1,000 files: the first time, when it is kept, and after a change of one file.
 * Ten folders of a hundred modules of 2 KB, each importing two others; the compiler's thread is started for the first.
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createCompiler } from '../../subsystems/compiler/motoko-compiler.ts';
import { ProjectClosures } from '../../subsystems/mops-closure/project-closures.ts';
import { report } from '../figures.ts';
import { median } from '../macro/quantile.ts';
import { optionsOf } from '../options.ts';

optionsOf({});

const FILES = 1000;
const ROUNDS = 7;
const COLD_REACH_MS = 1000;
const KEPT_REACH_MS = 30;
const FILLER =
  '  /// A line of documentation, as long as such lines are.\n  public func f(n : Nat) : Nat { n + 1 };\n'.repeat(20);

const root = await mkdtemp(join(tmpdir(), 'svc-closure-bench-'));
const pathOf = (k: number): string => `f${k % 10}/M${k}`;

async function timed(closures: ProjectClosures): Promise<{ readonly ms: number; readonly isCached: boolean }> {
  const startMs = performance.now();
  const document = await closures.closureOf('f0/M0.mo');
  let bytes = 0;
  for await (const piece of document.pieces()) bytes += piece.length;
  if (bytes < FILES * 1000) throw new Error(`only ${bytes} bytes`);
  return { ms: performance.now() - startMs, isCached: document.isCached };
}

try {
  for (let folder = 0; folder < 10; folder++) await mkdir(join(root, `f${folder}`));
  for (let k = 0; k < FILES; k++) {
    // A binary tree of ten levels.
    const imports = [2 * k + 1, 2 * k + 2]
      .filter((next) => next < FILES)
      .map((next) => `import M${next} "../${pathOf(next)}";\n`);
    await writeFile(join(root, `${pathOf(k)}.mo`), `${imports.join('')}module {\n${FILLER}}\n`);
  }
  const cold: number[] = [];
  const kept: number[] = [];
  const changed: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const compiler = createCompiler({ cacheDirectory: undefined });
    const closures = new ProjectClosures({ compiler, project: root });
    cold.push((await timed(closures)).ms);
    for (let k = 0; k < 5; k++) {
      const { ms, isCached } = await timed(closures);
      if (!isCached) throw new Error('it was not kept');
      kept.push(ms);
    }
    await writeFile(join(root, `${pathOf(500 + round)}.mo`), `module {\n${FILLER}// ${round}\n}\n`);
    changed.push((await timed(closures)).ms);
    await compiler.close();
  }
  const rows = [
    ['cold, with the thread’s start', cold, COLD_REACH_MS],
    ['kept', kept, KEPT_REACH_MS],
    ['one file changed', changed, undefined],
  ] as const;
  for (const [what, ms, reach] of rows) {
    const note = `best ${Math.min(...ms).toFixed(1)} ms`;
    const name = `${FILES} files, ${what}`;
    report({ panel: 'time', name, value: median(ms), unit: 'ms', note, ...(reach !== undefined && { reach }) });
  }
} finally {
  await rm(root, { recursive: true, force: true });
}
