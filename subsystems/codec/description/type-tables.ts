import { CodecPool } from '../codec-pool.ts';
import { typeTableBytes } from './type-table.ts';

/** Interfaces up to this length are read at once, as the codec does; longer ones in a thread. */
const DID_CHARACTERS_AT_ONCE = 16 * 1024;

/** Makes tables of interfaces' types (type-table.ts). The thread for large interfaces is started by the first. */
export class TypeTables {
  readonly #pool = new CodecPool();

  /**
   * Resolves with UTF-8 JSON; `initText` as in `describeInterface`. Rejects with ServerError: `bad-interface`, or as
   * conversions of large bodies do.
   */
  async tableOf(did: string, initText?: string): Promise<Uint8Array> {
    if (did.length + (initText?.length ?? 0) <= DID_CHARACTERS_AT_ONCE) return typeTableBytes(did, initText);
    return await this.#pool.describe({ described: did, initText });
  }

  /** Ends the thread; tables that are not made yet are rejected. */
  close(): Promise<void> {
    return this.#pool.close();
  }
}
