import type { Storage } from './index.ts';

/** Storage with what its plugin needs to open and close it. */
export interface OpenableStorage extends Storage {
  /** Resolves when the state is open. Rejects with the ServerError that says why it cannot be. */
  open(): Promise<void>;
  /**
   * Writes what is left, brings everything into the tables and releases the directory. Rejects with the ServerError
   * that says why that failed.
   */
  close(): Promise<void>;
}
