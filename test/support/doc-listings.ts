/** Listings of a page in docs/, to be executed: what a reader is shown is what happens. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

const DOCS = resolve(import.meta.dirname, '../../docs');

export interface Listing {
  readonly language: string;
  /** The file that is named before it. */
  readonly file: string | undefined;
  readonly text: string;
}

/** By the titles of sections. */
export async function listingsOf(name: string): Promise<ReadonlyMap<string, readonly Listing[]>> {
  const [, ...parts] = (await readFile(join(DOCS, `${name}.md`), 'utf8')).split(/^## /m);
  return new Map(
    parts.map((part) => {
      const listings = [...part.matchAll(/(?:^`([\w.-]+)`:\n\n)?^```(\w+)\n(.*?)^```$/gms)];
      return [
        part.slice(0, part.indexOf('\n')),
        listings.map(([, file, language = '', text = '']) => ({ language, file, text })),
      ];
    }),
  );
}

/** Commands of a listing, each behind `$`, and what they show. */
export function commandsOf({ text }: Listing): readonly { readonly line: string; readonly expected: string }[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((part) => {
      const [line = '', ...shown] = part.split('\n');
      return { line, expected: shown.join('\n') };
    });
}

/** `…` stands for anything. */
export function assertShows(shown: string, expected: string): void {
  const parts = expected.trim().split('…');
  const pattern = parts.map((part) => part.replaceAll(/[^\w"\s]/g, String.raw`\$&`)).join('.*');
  assert.match(shown.trim(), new RegExp(`^${pattern}$`, 's'));
}
