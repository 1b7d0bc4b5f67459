import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { INSTRUMENTER_VERSION } from './abi/index.ts';

/** What the output depends on: this code, the code that reads and writes modules for it, and the sizes of pages. */
const ROOMS = ['./', '../bytes/', '../ic/', '../wasm/'];

/**
 * Changes whenever the output for the same input may: with INSTRUMENTER_VERSION, and with every file of the code itself, since
 * a number that somebody has to remember is not what metering may hang by. Hex.
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
