import { posix } from 'node:path';

/** What an import's text means, before any file is looked for. */
export type ImportTarget =
  /** Part of the compiler. */
  | { readonly kind: 'builtin' }
  /** A module of the library that comes with the compiler. */
  | { readonly kind: 'core'; readonly module: string }
  | { readonly kind: 'actor'; readonly name: string }
  /** `path` is empty for the package itself. */
  | { readonly kind: 'package'; readonly package: string; readonly path: string }
  | { readonly kind: 'relative' }
  /** `isExternal`: it names something that is no source. */
  | { readonly kind: 'refused'; readonly refusal: string; readonly isExternal: boolean };

const ACTOR_SCHEME = 'canister:';
const PACKAGE_SCHEME = 'mo:';
const BUILT_IN: readonly string[] = ['mo:⛔', 'mo:prim'];

/** Of an import of anything but a package. */
export function targetOf(url: string): Exclude<ImportTarget, { readonly kind: 'package' | 'core' }> {
  if (BUILT_IN.includes(url)) return { kind: 'builtin' };
  if (url.startsWith(ACTOR_SCHEME)) return { kind: 'actor', name: url.slice(ACTOR_SCHEME.length) };
  const refused = refusalOf(url);
  return refused === undefined ? { kind: 'relative' } : { kind: 'refused', ...refused };
}

export function isPackageImport(url: string): boolean {
  return url.startsWith(PACKAGE_SCHEME) && !BUILT_IN.includes(url);
}

/** `hasPackage` says whether the project has a package of that name: one called `core` goes before the compiler's own. */
export function packageTargetOf(
  url: string,
  hasPackage: (name: string) => boolean,
): Extract<ImportTarget, { readonly kind: 'package' | 'core' | 'refused' }> {
  const rest = url.slice(PACKAGE_SCHEME.length);
  const slash = rest.indexOf('/');
  const name = slash === -1 ? rest : rest.slice(0, slash);
  const path = slash === -1 ? '' : rest.slice(slash + 1);
  if (!hasPackage(name)) {
    if (name === 'core') {
      if (slash !== -1) return { kind: 'core', module: posix.normalize(path) };
      return { kind: 'refused', refusal: 'name the module of mo:core ("mo:core/Text")', isExternal: false };
    }
    if (name === 'base') {
      const refusal =
        'mo:base does not come with the compiler, which bundles its successor mo:core (the same modules under "mo:core/…"); or add base to mops.toml';
      return { kind: 'refused', refusal, isExternal: false };
    }
  }
  return { kind: 'package', package: name, path };
}

/** Why an import that is no path is refused; undefined for a relative path. */
function refusalOf(url: string): { readonly refusal: string; readonly isExternal: boolean } | undefined {
  const refused = (refusal: string, isExternal = false) => ({ refusal, isExternal });
  if (url === '') return refused('an import needs a path');
  if (url.startsWith('ic:')) {
    return refused(
      'imports by principal are not built yet; name the actor in the manifest and import it as "canister:<name>"',
      true,
    );
  }
  if (url.startsWith('blob:')) return refused('blob imports are not supported', true);
  if (/^[A-Za-z][\w+.-]*:/u.test(url)) {
    return refused('unknown kind of import (known are "./path", "mo:package/Module" and "canister:name")');
  }
  if (url.startsWith('/'))
    return refused('imports are relative to the importing file; absolute paths are not supported');
  return undefined;
}
