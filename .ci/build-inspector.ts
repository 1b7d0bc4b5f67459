/**
 * Bundles the inspector page (`subsystems/inspector/page/`) into one file, `subsystems/inspector/page.html`, which is
 * committed: the server runs from source, without a build and without development packages. A test rebuilds it and
 * compares, so that it cannot be stale. `npm run build:inspector` writes it.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const ROOM = new URL('../subsystems/inspector/', import.meta.url);
export const PAGE_FILE = fileURLToPath(new URL('page.html', ROOM));

/** Files that the page may consist of; the import table of import-rules.ts does not cover JSX. */
const ALLOWED = /^(?!\.\.\/)|^(?:\.\.\/)+node_modules\/preact\//;

/** Returns the page as one file. The same sources and the same esbuild make the same bytes, on every machine. */
export async function buildPage(): Promise<string> {
  const directory = fileURLToPath(new URL('page/', ROOM));
  const [template, script, style] = await Promise.all([
    readFile(new URL('page/template.html', ROOM), 'utf8'),
    bundle(directory, 'main.tsx'),
    bundle(directory, 'style.css'),
  ]);
  // Functions, because a string with `$&` would be a replacement pattern.
  return template.replace('/*style*/', () => style).replace('/*script*/', () => script);
}

async function bundle(directory: string, entry: string): Promise<string> {
  const { outputFiles, metafile } = await build({
    absWorkingDir: directory,
    entryPoints: [entry],
    bundle: true,
    preserveSymlinks: true,
    write: false,
    metafile: true,
    minify: true,
    format: 'iife',
    target: ['es2023', 'chrome123', 'firefox121', 'safari17.5'],
    charset: 'utf8',
    legalComments: 'none',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    logLevel: 'error',
    tsconfigRaw: {},
  });
  const strangers = Object.keys(metafile.inputs).filter((input) => !ALLOWED.test(input));
  if (strangers.length > 0)
    throw new Error(`the page imports ${strangers.join(', ')}: it is its own folder and preact`);
  const text = outputFiles[0]?.text ?? '';
  // Such a tag would end the element early. esbuild writes `<\/script` itself; a style has no reason to contain the
  // tag.
  if (/<\/(?:script|style)/i.test(text)) throw new Error(`the bundle of ${entry} holds the end of its own element`);
  return text.trim();
}

if (import.meta.main) await writeFile(PAGE_FILE, await buildPage());
