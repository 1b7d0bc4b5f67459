import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { INSTRUMENTER_VERSION } from './abi/index.ts';

/** Rooms that the output depends on: this one, the reader and writer of modules, and the sizes of pages. */
const ROOMS = ['./', '../bytes/', '../ic/', '../wasm/'];

/**
 * Returns a hash, in hex, that changes whenever the output for the same input may change. It covers
 * INSTRUMENTER_VERSION and every file of these rooms, since metering must not depend on a number that somebody has to
 * remember to increase.
 */
export function codeVersion(): string {
  const hash = createHash('sha256').update(`${INSTRUMENTER_VERSION}\n`);
  for (const room of ROOMS) {
    const directory = new URL(room, import.meta.url);
    for (const name of readdirSync(directory, { recursive: true, encoding: 'utf8' }).toSorted()) {
      if (!/\.[jt]s$/.test(name)) continue;
      const content = readFileSync(new URL(name, directory));
      hash.update(`${room}${name} ${content.length}\n`).update(content);
    }
  }
  return hash.digest('hex');
}
