/**
 * Translates places of a bundle (`bundle.js`) in a stack into those of the sources. Source maps are read when a stack
 * is logged. With `--enable-source-maps`, Node would parse them at every start, and every stack would be slow.
 */
import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { fileURLToPath } from 'node:url';

/** Matches `file:///srv/svc/bundle/run.mjs:12:34`. */
const PLACE = /(file:\/\/[^\s()]+\.mjs):(\d+):(\d+)/g;

/** Returns the stack with places of sources, as far as there are maps for the files that it names. */
export function withSources(stack: string): string {
  const maps = new Map<string, SourceMap | undefined>();
  return stack.replaceAll(PLACE, (place, file: string, line: string, column: string) => {
    if (!maps.has(file)) maps.set(file, mapOf(file));
    const entry = maps.get(file)?.findEntry(Number(line) - 1, Number(column) - 1);
    if (entry === undefined || !('originalSource' in entry)) return place;
    const { originalSource, originalLine, originalColumn } = entry;
    return `${new URL(originalSource, file).href}:${originalLine + 1}:${originalColumn + 1}`;
  });
}

function mapOf(file: string): SourceMap | undefined {
  try {
    return new SourceMap(JSON.parse(readFileSync(`${fileURLToPath(file)}.map`, 'utf8')) as SourceMap['payload']);
  } catch {
    // The file is no bundle of ours, or its map is gone: the place stays as it is.
    return undefined;
  }
}
