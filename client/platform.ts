/** Parts of a tab, a worker or Node that this module uses where they are. */

export interface MessageEnd {
  postMessage(message: unknown): void;
  close(): void;
  addEventListener(name: 'message', listener: (event: { readonly data: unknown }) => void): void;
  /** Ports alone have it: they keep messages back before. */
  start?(): void;
}

interface Locks {
  request(name: string, options: { readonly signal?: AbortSignal }, held: () => unknown): Promise<unknown>;
}

interface SharedWorkerLike {
  readonly port: MessageEnd;
  addEventListener(name: 'error', listener: () => void): void;
}

/** An event of the page (`pageshow`) or of the worker (`connect`). */
export interface PlatformEvent {
  readonly persisted?: boolean;
  readonly ports?: readonly MessageEnd[];
}

export interface Platform {
  readonly document?: unknown;
  readonly name?: string;
  readonly location?: { readonly origin: string };
  readonly navigator?: { readonly locks?: Locks };
  readonly BroadcastChannel?: new (name: string) => MessageEnd;
  readonly SharedWorker?: new (
    url: string,
    options: { readonly type: 'module'; readonly name: string },
  ) => SharedWorkerLike;
  readonly SharedWorkerGlobalScope?: unknown;
  addEventListener?(name: string, listener: (event: PlatformEvent) => void): void;
  removeEventListener?(name: string, listener: (event: PlatformEvent) => void): void;
}

export const platform = globalThis as unknown as Platform;

/** Returns bytes by chance as 32 hex digits; `crypto.randomUUID` is missing on pages that came by plain HTTP. */
export function randomName(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/**
 * Holds a lock until `release` is called or this tab dies.
 *
 * @param held Called when the lock is there.
 * @returns The function that lets it go, or leaves the queue for it.
 */
export function holdLock(locks: Locks, name: string, held: () => void): () => void {
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  const leaving = new AbortController();
  let isHeld = false;
  locks
    .request(name, { signal: leaving.signal }, () => {
      if (leaving.signal.aborted) return undefined;
      isHeld = true;
      held();
      return released;
    })
    // Aborted in the queue, or the page goes.
    .catch(() => undefined);
  return () => {
    release();
    if (!isHeld) leaving.abort();
  };
}

/** Hands over what comes by a port or a channel. */
export function receiveFrom(end: MessageEnd, take: (message: unknown) => void): void {
  end.addEventListener('message', ({ data }) => take(data));
  end.start?.();
}
