import type { CallKind, Outcome } from '../ic/index.ts';

/** The part of an outcome that a deployment looks at. */
export type AssetReply =
  | { readonly kind: 'reply'; readonly data: Uint8Array }
  | { readonly kind: Exclude<Outcome['kind'], 'reply'>; readonly message: string };

/** An actor that takes files by the interface of the Internet Computer's asset canister. */
export interface AssetActor {
  readonly name: string;
  /** Returns true if it has this method now. */
  has(method: string): boolean;
  /** Calls a method as the host. Rejects with ServerError where the message cannot be delivered. */
  call(kind: CallKind, method: string, argument: Uint8Array): Promise<AssetReply>;
}

/** A folder whose files an actor serves. */
export interface AssetSource {
  /** Absolute path. */
  readonly folder: string;
  /** True for the site of the server's own: it follows `_redirects`, too. */
  readonly isSite: boolean;
}

/** Result of a deployment: how many files were added, changed, removed or have other headers, and bytes sent. */
export interface AssetChanges {
  readonly files: number;
  readonly bytes: number;
}

/** Folders as websites: what differs between a folder and what an actor has is sent to the actor. */
export interface AssetFolders {
  /**
   * Reads the folder and its rules without changing anything. Rejects with ServerError `assets-folder` or
   * `assets-rules`.
   */
  check(source: AssetSource): Promise<void>;
  /**
   * Makes the actor's files those of the folder, all at once, one deployment of an actor at a time. Rejects as `check`
   * does, with `assets-refused` if the actor does not take them, and with `assets-failed` if the thread that reads
   * folders ends meanwhile: what the actor had, it still has.
   */
  deploy(source: AssetSource, actor: AssetActor): Promise<AssetChanges>;
  /** Returns the folders whose changes may change the site: absolute paths, each with a slash at its end. */
  foldersOf(source: AssetSource): Promise<readonly string[]>;
}
