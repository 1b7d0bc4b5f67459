import { defineCapability } from '../../kernel/index.ts';

/** A page as it is sent. */
export interface InspectorPage {
  /** UTF-8, complete: scripts, styles and icons are in it. */
  readonly html: Uint8Array;
  /** A strong entity tag, with its quotes: another page has another. */
  readonly etag: string;
  /** Header names and values in turn; among them the policy that lets exactly this page's script run. */
  readonly headers: readonly string[];
}

/**
 * The page in which an operator looks at actors and works with them. It is made beforehand and holds nothing of this
 * server: it asks the routes of docs/http.md, with the token that its reader enters.
 */
export interface Inspector {
  /** The page, always the same. Throws ServerError `inspector-off` when it is turned off. */
  page(): InspectorPage;
}
export const Inspector = defineCapability<Inspector>('inspector');
