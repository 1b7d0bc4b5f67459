import { defineCapability } from '../../kernel/index.ts';

/** A page in the form in which it is sent. */
export interface InspectorPage {
  /** The complete page in UTF-8, including scripts, styles and icons. */
  readonly html: Uint8Array;
  /** A strong entity tag, with its quotes; each version of the page has its own. */
  readonly etag: string;
  /** Alternating header names and values; one is the policy that lets only this page's script run. */
  readonly headers: readonly string[];
}

/**
 * The page in which an operator looks at actors and works with them. It is built beforehand and holds no data of this
 * server: it asks the routes of docs/http.md, with the token that its reader enters.
 */
export interface Inspector {
  /** Returns the page, always the same. Throws ServerError `inspector-off` if it is turned off. */
  page(): InspectorPage;
}
export const Inspector = defineCapability<Inspector>('inspector');
