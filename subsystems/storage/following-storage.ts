import type { Logger } from '../../kernel/index.ts';
import { NoStorage } from './no-storage.ts';

interface FollowingOptions {
  /** The archive, and the state directory. */
  readonly archive: string;
  readonly directory: string;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/** The storage of a server that only follows an archive: it is never open, so nothing is kept and nothing served. */
export class FollowingStorage extends NoStorage {
  readonly #options: FollowingOptions;

  constructor(options: FollowingOptions) {
    super();
    this.#options = options;
  }

  /** Follows until the signal is aborted; `waiting` hears how far it is. */
  async follow(context: { readonly signal: AbortSignal; readonly waiting: (note: string) => void }): Promise<void> {
    const { followArchive } = await import('./follow-archive.ts');
    const { archive, directory, log } = this.#options;
    await followArchive({ archive, directory }, { ...context, log });
  }
}
