/** Messages between the main thread and the thread that reads folders. Each message has the number of its job. */
import type { CallKind } from '../ic/index.ts';
import type { JobFailure } from '../threads/index.ts';
import type { AssetReply, AssetSource } from './asset-folders.ts';

/** Work for the thread. */
export type FolderWork =
  | { readonly kind: 'check'; readonly source: AssetSource }
  | { readonly kind: 'foldersOf'; readonly source: AssetSource }
  | {
      readonly kind: 'deploy';
      readonly source: AssetSource;
      /** The actor's name. */
      readonly name: string;
      /** Methods of `asset-methods.ts` that the actor has. */
      readonly methods: readonly string[];
    };

/** Answer of the actor, or the error with which its call was rejected. */
export type CallAnswer = { readonly reply: AssetReply } | { readonly failure: JobFailure };

export type ToThread = { readonly job: number } & (
  | { readonly work: FolderWork }
  | { readonly call: number; readonly answer: CallAnswer }
);

export type FromThread = { readonly job: number } & (
  | {
      /** Number of the call, for its answer. */
      readonly call: number;
      readonly kind: CallKind;
      readonly method: string;
      readonly argument: Uint8Array<ArrayBuffer>;
    }
  | { readonly done: unknown }
  | { readonly failure: JobFailure }
);
