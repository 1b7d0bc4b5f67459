/** Which of two dependencies of one name wins, where neither is the root's. */
import type { Dependency, DependencySource } from './mops-toml.ts';
import { compareVersions, versionOfRef } from './mops-version.ts';

/** Tells whether a dependency takes the place of one that was met before. */
export function replaces({ source: next }: Dependency, { source: before }: Dependency): boolean {
  if (next.kind === 'github' && before.kind === 'github') {
    const [a, b] = [versionOfRef(before.branch), versionOfRef(next.branch)];
    // One that has no version loses, also against another one that comes later.
    return a === undefined || (b !== undefined && compareVersions(a, b) < 0);
  }
  return compareVersions(versionOf(before), versionOf(next)) < 0;
}

/** Tells whether a dependency wins, whichever of the two is met first. */
export function isHigher(one: Dependency, other: Dependency): boolean {
  return replaces(one, other) && !replaces(other, one);
}

function versionOf(source: DependencySource): string {
  return source.kind === 'registry' ? source.version : '0.0.0';
}
