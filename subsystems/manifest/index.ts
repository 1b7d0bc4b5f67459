import { defineCapability } from '../../kernel/index.ts';

/** One actor of the manifest, checked, with absolute paths. */
export interface ManifestActor {
  readonly name: string;
  /** A module (raw or gzip), or Motoko source. */
  readonly source: { readonly kind: 'wasm'; readonly file: string } | { readonly kind: 'main'; readonly file: string };
  /** A .did file, for modules without an embedded interface. */
  readonly candidFile: string | undefined;
  /** Init arguments: JSON text of an array, Candid text, raw Candid bytes, or none. */
  readonly args:
    | { readonly kind: 'json'; readonly text: string }
    | { readonly kind: 'candid'; readonly text: string }
    | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
    | undefined;
  /** Starting balance, if the manifest states one. */
  readonly cycles: bigint | undefined;
  readonly env: ReadonlyMap<string, string>;
  /** True if its queries get a placeholder for a certificate. */
  readonly hasCertificate: boolean;
  /** True if they get a certificate of its data that the host has signed. */
  readonly isCertified?: boolean;
  /** Principals that control the actor beside whoever installs it; undefined: the manifest does not say. */
  readonly controllers?: readonly Uint8Array[] | undefined;
  /** Methods that answer requests without the token; undefined: the manifest does not say. */
  readonly openMethods?: readonly string[] | undefined;
  /** Last messages that an upgrade is rehearsed with before it is done. */
  readonly rehearse?: number | undefined;
  /** A folder whose files are put into the actor. */
  readonly assets?: AssetsFolder | undefined;
}

interface AssetsFolder {
  readonly folder: string;
  /** True if the actor is the server's own site: the manifest names no other source. */
  readonly isSite: boolean;
}

/** Declaration of the actors that this host serves (`actors.json`). */
export interface Manifest {
  /** Reads and checks the file. Rejects with a ServerError that names the file, the JSON path and the fix. */
  read(): Promise<readonly ManifestActor[]>;
}
export const Manifest = defineCapability<Manifest>('manifest');

export { type JsonNode, type JsonObject, JsonSyntaxError, placeOf, readJson } from './positioned-json.ts';
