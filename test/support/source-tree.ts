/** The source files of the tree, for tests that look at all of them. */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

export const ROOT = resolve(import.meta.dirname, '../..');
/** Rooms of the server itself. */
export const SERVER = ['kernel', 'subsystems', 'plugins', 'config', 'client'];
/** Rooms with source files. */
export const ALL = [...SERVER, 'test', 'benchmarks', '.ci'];

/** Returns the files of some rooms that match a pattern, by their paths from the root; no declarations (`.d.ts`). */
export function files(rooms: readonly string[], pattern: string): readonly string[] {
  return rooms
    .flatMap((room) => globSync(`${room}/${pattern}`, { cwd: ROOT }))
    .filter((file) => !file.endsWith('.d.ts') && !file.includes('node_modules'));
}

export function read(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8');
}

/** Returns the path from the root of the file that another one names by a relative specifier. */
export function resolved(file: string, specifier: string): string {
  return relative(ROOT, resolve(ROOT, dirname(file), specifier));
}

/** All source files. */
export const sources: readonly string[] = files(ALL, '**/*.{ts,tsx}');
/** Source files of the server, the page of the inspector with them. */
export const serverSources: readonly string[] = files(SERVER, '**/*.{ts,tsx}');
