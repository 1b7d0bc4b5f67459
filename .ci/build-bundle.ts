/**
 * Bundles the server: `node .ci/build-bundle.ts` for this clone; `build.ts` for a package. `config/bundle.js` says why.
 *
 * The main thread's entries share their code, so that `svc/plugin` is the running server's own; each thread gets one
 * file. Files that are looked up beside a source file (`import.meta.url`) are found there as before, except code: a
 * literal `new URL('….ts', import.meta.url)` makes that file an entry, and names the entry's bundle. Names are not
 * minified, and `config/stacks.ts` turns places of the bundle into those of the sources.
 */
import { globSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { type BuildOptions, build, type Metafile, type Plugin } from 'esbuild';
import { codeVersion } from '../subsystems/instrument/code-version.ts';
import { bundleNameOf, bundlesOf, INGREDIENTS, keyOf, PROGRAM, writeCurrent } from '../config/bundle.js';

const ROOT = resolve(import.meta.dirname, '..');
/** Code for CommonJS packages: they may require modules of Node, and packages that stay outside the bundle. */
const REQUIRE =
  "const require = (id) => process.getBuiltinModule(id) ?? process.getBuiltinModule('module').createRequire(import.meta.url)(id);";
const ENTRY = 'config/main.ts';
/** File that hashes the sources of the instrumenter: a bundle has the hash, and needs no sources for it. */
const CODE_VERSION = 'subsystems/instrument/code-version.ts';
/**
 * Packages outside the bundle: native code, packages that look for files beside themselves, packages that are loaded
 * only if asked for, and a megabyte that fastify loads for routes with schemas and for tests, of which the server has
 * neither.
 */
export const EXTERNAL: readonly string[] = [
  '@nxtedition/rocksdb',
  'motoko',
  'pg',
  'undici',
  '@fastify/ajv-compiler',
  '@fastify/fast-json-stringify-compiler',
  'light-my-request',
];
/** Entries that run in the main thread: modules that plugins from outside import. */
const IN_MAIN_THREAD = /^plugins\//;
/** Matches the URL of code that a thread or a plugin imports. */
const CODE_URL = /new URL\(\s*'(\.[^']+\.ts)',\s*import\.meta\.url\s*\)/g;
/** Matches such a URL, or any other use of `import.meta.url`. */
const PLACE = new RegExp(`${CODE_URL.source}|\\bimport\\.meta\\.url\\b`, 'g');

/** Contents of a bundle. */
interface Bundled {
  /** Paths of source files, from the root. */
  readonly sources: readonly string[];
  /** Folders of packages, from the root. */
  readonly packages: readonly string[];
}

/** Writes a bundle into `folder`; the sources will be at `root`, a path relative to that folder. */
export async function buildBundle(folder: string, root: string): Promise<Bundled> {
  const entries = entriesOfSources();
  const isMain = (file: string): boolean => file === ENTRY || IN_MAIN_THREAD.test(file);
  const options = {
    absWorkingDir: ROOT,
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    supported: { using: true },
    mainFields: ['module', 'main'],
    external: EXTERNAL.flatMap((name) => [name, `${name}/*`]),
    banner: { js: REQUIRE },
    sourcemap: 'linked',
    sourcesContent: false,
    legalComments: 'none',
    minifyWhitespace: true,
    lineLimit: 160,
    metafile: true,
    logLevel: 'error',
    tsconfigRaw: {},
    plugins: [placesOf(entries, root)],
  } as const satisfies BuildOptions;
  const of = (isWanted: (file: string) => boolean): Record<string, string> =>
    Object.fromEntries(entries.filter(isWanted).map((file) => [nameOf(file), file]));
  const built = await Promise.all([
    build({ ...options, entryPoints: of(isMain), splitting: true, chunkNames: 'main-[hash]' }),
    build({ ...options, entryPoints: of((file) => !isMain(file)) }),
  ]);
  return bundledIn(built.map(({ metafile }) => metafile));
}

/** Returns the server's entry, and every code file that is named by a URL. */
function entriesOfSources(): readonly string[] {
  const files = globSync('{kernel,subsystems,plugins,config}/**/*.ts', { cwd: ROOT });
  const named = files.flatMap((file) =>
    [...readFileSync(join(ROOT, file), 'utf8').matchAll(CODE_URL)].map(([, path = '']) =>
      relative(ROOT, resolve(ROOT, dirname(file), path)),
    ),
  );
  return [...new Set([ENTRY, ...named])].toSorted();
}

/** Returns an entry's name: `config/main.ts` is the program. */
function nameOf(file: string): string {
  return file === ENTRY ? PROGRAM.replace('.mjs', '') : bundleNameOf(file);
}

function placesOf(entries: readonly string[], root: string): Plugin {
  return {
    name: 'places',
    setup(bundler) {
      bundler.onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const file = relative(ROOT, path);
        if (file.startsWith('node_modules')) return undefined;
        if (file === CODE_VERSION)
          return { contents: `export const codeVersion = () => ${JSON.stringify(codeVersion())};`, loader: 'ts' };
        const text = readFileSync(path, 'utf8');
        const other = /\bimport\.meta\.(?!url\b|main\b)\w+/.exec(text)?.[0];
        if (other !== undefined)
          throw new Error(`${file} uses ${other}: a bundle knows import.meta.url and import.meta.main only`);
        if (!text.includes('import.meta.url')) return undefined;
        const contents = text.replaceAll(PLACE, (_, named: string | undefined) => {
          if (named === undefined) return `new URL(${JSON.stringify(`${root}/${file}`)}, import.meta.url).href`;
          const entry = relative(ROOT, resolve(dirname(path), named));
          if (!entries.includes(entry)) throw new Error(`${file} names ${named}, which is no entry of the bundle`);
          return `new URL('./${nameOf(entry)}.mjs', import.meta.url)`;
        });
        return { contents, loader: 'ts' };
      });
    },
  };
}

function bundledIn(metafiles: readonly Metafile[]): Bundled {
  const inputs = [...new Set(metafiles.flatMap(({ inputs: all }) => Object.keys(all)))].toSorted();
  const packageOf = (input: string): string | undefined => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1];
  return {
    sources: inputs.filter((input) => packageOf(input) === undefined),
    packages: [...new Set(inputs.flatMap((input) => packageOf(input) ?? []))].toSorted(),
  };
}

async function bundleClone(): Promise<void> {
  const bundles = bundlesOf(ROOT);
  mkdirSync(bundles, { recursive: true });
  const draft = join(bundles, `.draft-${process.pid}`);
  try {
    const { sources } = await buildBundle(draft, relative(draft, ROOT));
    const inputs = [...sources, ...INGREDIENTS];
    const key = await keyOf(ROOT, inputs);
    moveUnlessThere(draft, join(bundles, key));
    writeCurrent(bundles, { key, inputs });
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

/**
 * Moves the draft unless the place is taken: the same sources make the same bundle, so another process's is as good.
 */
function moveUnlessThere(draft: string, place: string): void {
  try {
    renameSync(draft, place);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error;
  }
}

if (import.meta.main) await bundleClone();
