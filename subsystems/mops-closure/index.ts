import { defineCapability } from '../../kernel/index.ts';

/** The sources that Motoko files of one project depend on, for clients that read or verify them. */
export interface MopsClosures {
  /**
   * Returns the closure of `entry`, a path relative to the project. Rejects with a ServerError: `outside-project`
   * (forbidden) if the entry, or anything that it needs, is outside the project; `no-such-source`, `project-unset`,
   * `closure-off` (missing); `bad-entry`, `source-too-large`, `mops-invalid` (invalid); `source-changing`,
   * `closure-busy` (unavailable).
   */
  closureOf(entry: string): Promise<ClosureDocument>;
}
export const MopsClosures = defineCapability<MopsClosures>('mops-closures');

/**
 * JSON, UTF-8: `{"entry","files":[{"path","package","sha256","base64"}],"missing":[{"import","from"}],
 * "unusable":[{"import","from","path","reason"}],"external":[{"import","from"}],"warnings":[…]}`.
 */
export interface ClosureDocument {
  /** True if the document was kept, and no file has changed since. */
  readonly isCached: boolean;
  /** Yields the document in pieces of at most about a megabyte, made as they are taken. */
  pieces(): AsyncIterable<Uint8Array>;
}
