/** Types of the way to the database: its options, and requests that wait for their turn there. */
import type { Clock, Logger, ServerError } from '../api/plugin.ts';
import type { StorageRequest } from '../api/storage.ts';
import type { Database } from './database.ts';
import type { Lease } from './lease.ts';

export interface PostgresPortOptions {
  readonly database: Database;
  readonly lease: Lease;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  /** Bytes of a layer from which on it goes to the tables. */
  readonly foldBytes?: number;
  /** Bytes of units that may wait for a database that is away. */
  readonly waitingBytesMax?: number;
}
/** A request that is answered in the order of units and requests; the others are answered at once. */
type QueuedRequest = Exclude<StorageRequest, { readonly kind: 'figures' | 'nextPiece' }>;
export type OrderedRequest = Exclude<QueuedRequest, { readonly kind: 'close' }>;

/** Work on tables that have all that was committed, in the order of units and requests. */
interface TableWork {
  readonly kind: 'tables';
  /** Never rejects. */
  readonly run: () => Promise<void>;
  readonly refuse: (error: ServerError) => void;
}

export interface Asked {
  readonly call: number;
  readonly request: QueuedRequest | TableWork;
  /** The newest unit that was handed over before it. */
  readonly after: number;
}
