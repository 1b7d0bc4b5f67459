/** Listings of a page in docs/, to be executed, so that readers are shown what really happens. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

const DOCS = resolve(import.meta.dirname, '../../docs');

interface Listing {
  readonly language: string;
  /** Name of the file that is given in front of the listing. */
  readonly file: string | undefined;
  readonly text: string;
}

/** Returns the listings of a page, by the titles of their sections. */
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

/** Returns the commands of a listing, each behind `$`, with the output shown for them. */
export function commandsOf({ text }: Listing): readonly { readonly line: string; readonly expected: string }[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((part) => {
      const [line = '', ...shown] = part.split('\n');
      return { line, expected: shown.join('\n') };
    });
}

/** Asserts that `shown` matches `expected`, where `…` stands for any text. */
export function assertShows(shown: string, expected: string): void {
  const parts = expected.trim().split('…');
  const pattern = parts.map((part) => part.replaceAll(/[^\w"\s]/g, String.raw`\$&`)).join('.*');
  assert.match(shown.trim(), new RegExp(`^${pattern}$`, 's'));
}
