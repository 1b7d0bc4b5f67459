import { createRequire } from 'node:module';
import { readFile } from 'node:fs/promises';
import { posix } from 'node:path';
import { scanImports } from './import-scanner.ts';

/** Root of `mo:core` in the compiler's file system; diagnostics inside the library then read `mo:core/Map.mo:3.5`. */
export const CORE_ROOT = 'mo:core';

const require = createRequire(import.meta.url);

/** Release of the npm package `motoko`; it pins both the compiler and the bundled library. */
export const motokoRelease: string = releaseOf(require('motoko/package.json'));

/** The compiler's program, one JavaScript file. */
export function mocProgramFile(): string {
  return require.resolve('motoko/versions/latest/moc.min.js');
}

/** The library that comes with the compiler. About 1.2 MB: read when something is compiled, not kept. */
export interface CorePackage {
  /** `2.5.0` */
  readonly version: string;
  /** Module paths without `.mo` (`Map`, `pure/List`). */
  readonly modules: readonly string[];
  textOf(this: void, module: string): string | undefined;
  /** The files that these modules need, themselves included, by path in the compiler's file system. */
  filesFor(modules: Iterable<string>): ReadonlyMap<string, string>;
}

export async function readCorePackage(): Promise<CorePackage> {
  const bundle: unknown = JSON.parse(await readFile(require.resolve('motoko/packages/latest/core.json'), 'utf8'));
  const texts = textsOf(bundle);
  return {
    version: releaseOf(bundle).replace(/^v/u, ''),
    modules: [...texts.keys()],
    textOf: (module) => texts.get(module),
    filesFor(modules) {
      const files = new Map<string, string>();
      const queue = [...modules];
      for (let module = queue.pop(); module !== undefined; module = queue.pop()) {
        const text = texts.get(module);
        const file = `${CORE_ROOT}/${module}.mo`;
        if (text === undefined || files.has(file)) continue;
        files.set(file, text);
        for (const { url } of scanImports(text)) {
          if (url.startsWith('mo:core/')) queue.push(url.slice('mo:core/'.length));
          else if (!url.includes(':')) queue.push(posix.join(posix.dirname(module), url));
        }
      }
      return files;
    },
  };
}

function releaseOf(manifest: unknown): string {
  if (typeof manifest === 'object' && manifest !== null && 'version' in manifest) return String(manifest.version);
  throw new TypeError('the npm package motoko has no version');
}

function entriesOf(value: unknown): readonly [string, unknown][] {
  return typeof value === 'object' && value !== null ? Object.entries(value) : [];
}

function textsOf(bundle: unknown): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  if (typeof bundle === 'object' && bundle !== null && 'files' in bundle) {
    for (const [path, file] of entriesOf(bundle.files)) {
      if (typeof file === 'object' && file !== null && 'content' in file && typeof file.content === 'string') {
        texts.set(path.replace(/\.mo$/u, ''), file.content);
      }
    }
  }
  return texts;
}
