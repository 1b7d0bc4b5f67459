/**
 * `npm run bench -- NAME…`: runs benchmarks by name; without one, lists them, each with the first sentence of its file.
 * `npm run bench -- NAME --chart` also draws the reported figures as benchmarks/NAME.svg.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { basename, join } from 'node:path';
import { barChart } from './chart.ts';
import type { Figure } from './figures.ts';

const SUFFIX = '.bench.ts';
const files = ['micro', 'macro'].flatMap((folder) => {
  const directory = join(import.meta.dirname, folder);
  return readdirSync(directory)
    .filter((file) => file.endsWith(SUFFIX))
    .map((file) => join(directory, file));
});
const nameOf = (file: string): string => basename(file, SUFFIX);

/** Returns the first sentence of the comment at the top. */
function questionOf(file: string): string {
  const comment = /^\/\*\*([\s\S]*?)\*\//m.exec(readFileSync(file, 'utf8'))?.[1] ?? '';
  const text = comment
    .replace(/^[ \t]*\*/gm, '')
    .replace(/\s+/g, ' ')
    .trim();
  return /^.*?[.?](?= |$)/.exec(text)?.[0] ?? text;
}

// Words behind the names go to the benchmarks, after `--` or not; a bare --chart next to the names is for this runner.
const wanted = process.argv.slice(2);
const firstOption = wanted.findIndex((word) => word.startsWith('-'));
const names = firstOption < 0 ? wanted : wanted.slice(0, firstOption);
const behind = firstOption < 0 ? [] : wanted.slice(firstOption);
const isDrawn = behind[0] === '--chart' && (behind.length === 1 || behind[1] === '--');
const options = (isDrawn ? behind.slice(1) : behind).filter((word, at) => at > 0 || word !== '--');
// A name stands for itself and for all names that begin with it: `engine` runs engine-kernels and engine-motoko.
const chosen = files.filter((file) =>
  names.some((name) => nameOf(file) === name || nameOf(file).startsWith(`${name}-`)),
);
const unknown = names.filter(
  (name) => !files.some((file) => nameOf(file) === name || nameOf(file).startsWith(`${name}-`)),
);

if (unknown.length > 0 || names.length === 0) {
  for (const name of unknown) process.stderr.write(`there is no benchmark ${name}\n`);
  process.stdout.write('npm run bench -- NAME [NAME …] [--chart] [-- OPTIONS]\n\n');
  for (const file of files) process.stdout.write(`  ${nameOf(file).padEnd(18)} ${questionOf(file)}\n`);
  process.exitCode = unknown.length > 0 ? 2 : 0;
}
const figures: Figure[] = [];
for (const file of chosen) {
  process.stdout.write(`\n== ${nameOf(file)}: ${questionOf(file)}\n`);
  const child = spawn(process.execPath, [file, ...options], { stdio: ['inherit', 'inherit', 'inherit', 'ipc'] });
  child.on('message', (figure) => figures.push(figure as Figure));
  const [code] = (await once(child, 'close')) as [number | null];
  // Code 2: the command line is impossible.
  if (code !== 0) process.exitCode = code === 2 ? 2 : 1;
}
if (isDrawn) {
  if (figures.length === 0 || process.exitCode !== undefined) {
    process.stderr.write('no chart: a benchmark failed, or none of them reports figures that can be drawn\n');
    process.exitCode = 1;
  } else {
    const path = join(import.meta.dirname, `${names.join('-')}.svg`);
    const today = new Date().toISOString().slice(0, 10);
    const processor = cpus()[0]?.model.trim() || process.arch;
    const subtitle = `${today}, Node ${process.versions.node} (V8 ${process.versions.v8}), ${availableParallelism()} cores (${processor})`;
    writeFileSync(path, barChart(`npm run bench -- ${names.join(' ')}`, subtitle, figures));
    process.stdout.write(`\n${path}\n`);
  }
}
