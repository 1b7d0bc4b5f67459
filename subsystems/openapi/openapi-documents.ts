import { ServerError } from '../../kernel/index.ts';
import { JobThread } from '../threads/index.ts';
import type { DocumentRequest } from './document.ts';
import type { DescribedActor, OpenApi } from './index.ts';

/** Time limit for one document; an interface of 1 MiB takes some 300 ms. */
const JOB_DEADLINE_MS = 10_000;
/** Documents that may wait to be made; each holds an interface of up to 1 MiB. */
const WAITING_JOBS_MAX = 64;
/** Heap for the types of 1 MiB of .did, and a document of some 8 MiB as objects, as text and as bytes. */
const THREAD_HEAP_MB = 384;
const THREAD_STACK_MB = 4;
/** Bytes of kept documents: those of some hundred ordinary actors, or of a few with very large interfaces. */
const KEPT_BYTES_MAX = 32 * 1024 * 1024;
/** Overhead of each document in the map. */
const KEPT_ENTRY_BYTES = 512;

export interface OpenApiOptions {
  /** The server wants a bearer token. */
  readonly isGuarded: boolean;
  /** For tests. */
  readonly jobDeadlineMs?: number;
  readonly keptBytesMax?: number;
}

/** Makes documents in a thread, and keeps the latest of them. */
export class OpenApiDocuments implements OpenApi {
  readonly #isGuarded: boolean;
  readonly #thread: JobThread<DocumentRequest, Uint8Array>;
  readonly #keptBytesMax: number;
  /** Documents by interface and name, finished or under way; the least recently used first. */
  readonly #kept = new Map<string, Promise<Uint8Array>>();
  readonly #sizes = new Map<string, number>();
  readonly #numbers = new WeakMap<DescribedActor['candid'], number>();
  #keptBytes = 0;
  #interfaces = 0;

  constructor({ isGuarded, jobDeadlineMs = JOB_DEADLINE_MS, keptBytesMax = KEPT_BYTES_MAX }: OpenApiOptions) {
    this.#isGuarded = isGuarded;
    this.#keptBytesMax = keptBytesMax;
    this.#thread = new JobThread({
      name: 'openapi',
      script: new URL('./openapi-worker.ts', import.meta.url),
      jobDeadlineMs,
      waitingJobsMax: WAITING_JOBS_MAX,
      heapMb: THREAD_HEAP_MB,
      stackMb: THREAD_STACK_MB,
      refusals: {
        busy: () => {
          const text = `${WAITING_JOBS_MAX} OpenAPI documents are waiting to be made; try again later`;
          return new ServerError('unavailable', 'openapi-busy', text);
        },
        late: () => {
          const text = `making the OpenAPI document took longer than ${jobDeadlineMs} ms: the interface is too large for one`;
          return new ServerError('invalid', 'openapi-too-large', text);
        },
        failed: (what, cause) =>
          new ServerError('unavailable', 'openapi-failed', `the thread for OpenAPI documents ${what}; try again`, {
            cause,
          }),
        closed: () =>
          new ServerError('unavailable', 'openapi-closed', 'the server is stopping: no document is made any more'),
      },
    });
  }

  documentOf(actor: DescribedActor): Promise<Uint8Array> {
    return this.#keptOrMade(actor, undefined);
  }

  typesOf(actor: DescribedActor): Promise<Uint8Array> {
    return this.#keptOrMade(actor, 'types');
  }

  #keptOrMade(actor: DescribedActor, form: 'types' | undefined): Promise<Uint8Array> {
    const key = `${this.#numberOf(actor.candid)} ${form ?? ''} ${actor.name}`;
    const known = this.#kept.get(key);
    if (known !== undefined) {
      this.#kept.delete(key);
      this.#kept.set(key, known);
      return known;
    }
    const making = this.#make(actor, form);
    this.#kept.set(key, making);
    making.then(
      (bytes) => this.#made(key, making, bytes.length),
      () => this.#forget(key, making),
    );
    return making;
  }

  close(): Promise<void> {
    return this.#thread.close();
  }

  /** An interface is known by its object: to compare texts of a mebibyte for every request would take longer. */
  #numberOf(candid: DescribedActor['candid']): number {
    const known = this.#numbers.get(candid);
    if (known !== undefined) return known;
    this.#interfaces++;
    this.#numbers.set(candid, this.#interfaces);
    return this.#interfaces;
  }

  #make({ name, candid, methods, takesCaller = true }: DescribedActor, form: 'types' | undefined): Promise<Uint8Array> {
    return this.#thread.run({
      ...(form && { form }),
      actor: name,
      did: candid.text,
      exports: methods,
      isGuarded: this.#isGuarded,
      takesCaller,
    });
  }

  #made(key: string, making: Promise<Uint8Array>, bytes: number): void {
    if (this.#kept.get(key) !== making) return;
    // There is no room for it however many others go.
    if (bytes + KEPT_ENTRY_BYTES > this.#keptBytesMax) {
      this.#forget(key, making);
      return;
    }
    this.#sizes.set(key, bytes + KEPT_ENTRY_BYTES);
    this.#keptBytes += bytes + KEPT_ENTRY_BYTES;
    for (const [oldest, kept] of this.#kept) {
      if (this.#keptBytes <= this.#keptBytesMax) break;
      // One under way takes no room yet, and its askers wait for it.
      if (this.#sizes.has(oldest)) this.#forget(oldest, kept);
    }
  }

  #forget(key: string, making: Promise<Uint8Array>): void {
    if (this.#kept.get(key) !== making) return;
    this.#kept.delete(key);
    this.#keptBytes -= this.#sizes.get(key) ?? 0;
    this.#sizes.delete(key);
  }
}
