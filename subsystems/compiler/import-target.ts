import { posix } from 'node:path';
import { parsePrincipal } from '../ic/index.ts';

/** The meaning of an import's text, before any file is looked for. */
export type ImportTarget =
  /** Part of the compiler. */
  | { readonly kind: 'builtin' }
  /** A module of the library that comes with the compiler. */
  | { readonly kind: 'core'; readonly module: string }
  | { readonly kind: 'actor'; readonly name: string }
  /** `path` is empty for the package itself. */
  | { readonly kind: 'package'; readonly package: string; readonly path: string }
  | { readonly kind: 'relative' }
  /** The bytes of a file. */
  | { readonly kind: 'blob'; readonly path: string }
  /** An actor by its id as text. */
  | { readonly kind: 'principal'; readonly principal: string }
  | { readonly kind: 'refused'; readonly refusal: string };

const ACTOR_SCHEME = 'canister:';
const PRINCIPAL_SCHEME = 'ic:';
const BLOB_SCHEME = 'blob:file:';
const NEEDS_NEWER_COMPILER =
  '"idl:" needs a newer Motoko compiler than the one that comes with this server; ' +
  'name a folder by args = ["--actor-idl=idl"] below [moc] in mops.toml, ' +
  'put the interface into it as <principal>.did, and import "ic:<principal>"';
const PACKAGE_SCHEME = 'mo:';
const BUILT_IN: readonly string[] = ['mo:⛔', 'mo:prim'];

/** Returns the target of an import of anything but a package. */
export function targetOf(url: string): Exclude<ImportTarget, { readonly kind: 'package' | 'core' }> {
  if (BUILT_IN.includes(url)) return { kind: 'builtin' };
  if (url.startsWith(ACTOR_SCHEME)) return { kind: 'actor', name: url.slice(ACTOR_SCHEME.length) };
  const refusal = refusalOf(url);
  if (refusal !== undefined) return { kind: 'refused', refusal };
  if (url.startsWith(BLOB_SCHEME)) return { kind: 'blob', path: url.slice(BLOB_SCHEME.length) };
  return url.startsWith(PRINCIPAL_SCHEME)
    ? { kind: 'principal', principal: url.slice(PRINCIPAL_SCHEME.length) }
    : { kind: 'relative' };
}

export function isPackageImport(url: string): boolean {
  return url.startsWith(PACKAGE_SCHEME) && !BUILT_IN.includes(url);
}

/**
 * Returns the target of an import of a package. `hasPackage` says whether the project has a package of that name: a
 * package called `core` goes before the compiler's own.
 */
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
      return path === '' ? withoutModule(name) : { kind: 'core', module: posix.normalize(path) };
    }
    if (name === 'base') {
      const refusal =
        'mo:base does not come with the compiler, which bundles its successor mo:core (the same modules under "mo:core/…"); or add base to mops.toml';
      return { kind: 'refused', refusal };
    }
  }
  return { kind: 'package', package: name, path };
}

/** Returns the target of an import of the compiler's library, by any of its names, which has no module of its own. */
export function withoutModule(name: string): Extract<ImportTarget, { readonly kind: 'refused' }> {
  return { kind: 'refused', refusal: `name the module of mo:${name} ("mo:${name}/Text")` };
}

/** Returns why an import that is none of a package is refused, or undefined if it is not. */
function refusalOf(url: string): string | undefined {
  if (url === '') return 'an import needs a path';
  if (url.startsWith(PRINCIPAL_SCHEME)) {
    return parsePrincipal(url.slice(PRINCIPAL_SCHEME.length)) === undefined ? 'that is no principal' : undefined;
  }
  if (url.startsWith(BLOB_SCHEME)) {
    const path = url.slice(BLOB_SCHEME.length);
    if (path === '' || path.endsWith('/')) return 'a blob is a file; name one ("blob:file:data.txt")';
    return path.startsWith('/')
      ? 'blobs are relative to the importing file; absolute paths are not supported'
      : undefined;
  }
  if (url.startsWith('blob:')) return 'the only blobs are files ("blob:file:data.txt")';
  if (url.startsWith('idl:')) return NEEDS_NEWER_COMPILER;
  if (/^[A-Za-z][\w+.-]*:/u.test(url)) {
    return 'unknown kind of import (known are "./path", "mo:package/Module", "canister:name", "ic:principal" and "blob:file:path")';
  }
  if (url.startsWith('/')) return 'imports are relative to the importing file; absolute paths are not supported';
  return undefined;
}
