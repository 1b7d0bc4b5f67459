/**
 * Ways from a tab to the hub that it shares with the other tabs of its origin: a SharedWorker, else the tab that holds
 * a lock and a BroadcastChannel, else a hub of its own.
 */
import { Hub, type HubEnd, type StreamSettings, type ToHub, type ToTab } from './hub.ts';
import { holdLock, type MessageEnd, type Platform, platform, randomName, receiveFrom } from './platform.ts';

/** Version of the messages between tabs: tabs with another one share nothing with these. */
const SHARED_NAME = 'svc-client 1';
/** Name of the file as it is shipped, which is also the program of the worker. */
const FILE_NAME = /\/svc-client\.mjs$/;
/** A worker that says nothing for so long does not run. */
const WELCOME_MS = 5000;
/** Where there are no locks, tabs and the worker know by their messages that the other lives; browsers slow down the
 * timers of tabs in the background to one a minute. */
const PING_MS = 20_000;
const PING_MISSED_MS = 150_000;

type Receive = (message: ToTab) => void;

/** Opens the way to a hub; the tab says its queries at each `restart`. */
export function openHub(
  settings: StreamSettings,
  ask: typeof fetch,
  sharing: { readonly isShared: boolean; readonly worker: string | URL | undefined },
  receive: Receive,
): HubEnd {
  if (!sharing.isShared) return ownHub(settings, ask, receive);
  const program = workerProgram(sharing.worker);
  const { SharedWorker: Worker } = platform;
  if (program === undefined || Worker === undefined) return lockedHub(settings, ask, receive);
  try {
    return workerHub(() => new Worker(program, { type: 'module', name: SHARED_NAME }), settings, ask, receive);
  } catch {
    return lockedHub(settings, ask, receive);
  }
}

/** Returns the URL of the worker's program: the one that was named, or this file, if it is not in a bundle. */
function workerProgram(named: string | URL | undefined): string | undefined {
  if (named !== undefined) return String(named);
  try {
    const url = new URL(import.meta.url);
    return url.origin === platform.location?.origin && FILE_NAME.test(url.pathname) ? url.href : undefined;
  } catch {
    return undefined;
  }
}

function ownHub(settings: StreamSettings, ask: typeof fetch, receive: Receive): HubEnd {
  const hub = new Hub(settings, ask);
  const end = hub.attach(receive);
  queueMicrotask(() => receive({ kind: 'restart' }));
  return { receive: end.receive, close: () => hub.close() };
}

/** First message of a tab to the worker. */
interface Hello {
  readonly kind: 'hello';
  readonly settings: StreamSettings;
  /** Lock that the tab holds as long as it lives; undefined: it has none, and sends pings. */
  readonly lock: string | undefined;
}

type ToWorker = Hello | ToHub | { readonly kind: 'ping' } | { readonly kind: 'bye' };
type FromWorker = ToTab | { readonly kind: 'welcome'; readonly lock: string | undefined } | { readonly kind: 'pong' };

/** The tab's end of a worker; where the worker does not run the tab goes on with the lock. */
function workerHub(
  start: () => InstanceType<NonNullable<Platform['SharedWorker']>>,
  settings: StreamSettings,
  ask: typeof fetch,
  receive: Receive,
): HubEnd {
  const locks = platform.navigator?.locks;
  const lock = locks === undefined ? undefined : `${SHARED_NAME} ${randomName()}`;
  let instead: HubEnd | undefined;
  let release: () => void = () => undefined;
  let leaveWorkersQueue: () => void = () => undefined;
  let isClosed = false;
  let port: MessageEnd | undefined;
  let heard = Date.now();
  const giveUp = (): void => {
    if (isClosed || instead !== undefined) return;
    stop();
    instead = lockedHub(settings, ask, receive);
  };
  let timer = setTimeout(giveUp, WELCOME_MS);
  const stop = (): void => {
    clearTimeout(timer);
    release();
    leaveWorkersQueue();
    port?.postMessage({ kind: 'bye' } satisfies ToWorker);
    port?.close();
  };
  const beat = (): void => {
    if (Date.now() - heard > PING_MISSED_MS) connect();
    else port?.postMessage({ kind: 'ping' } satisfies ToWorker);
    timer = setTimeout(beat, PING_MS);
  };
  const connect = (): void => {
    if (isClosed || instead !== undefined) return;
    heard = Date.now();
    port?.close();
    leaveWorkersQueue();
    const worker = start();
    worker.addEventListener('error', giveUp);
    port = worker.port;
    receiveFrom(port, (data) => {
      heard = Date.now();
      const message = data as FromWorker;
      if (message.kind === 'pong') return;
      if (message.kind !== 'welcome') receive(message);
      else {
        clearTimeout(timer);
        timer = setTimeout(beat, PING_MS);
        // The worker's lock is free when it has died: another one is started.
        if (locks !== undefined && message.lock !== undefined)
          leaveWorkersQueue = holdLock(locks, message.lock, () => queueMicrotask(connect));
      }
    });
    port.postMessage({ kind: 'hello', settings, lock } satisfies ToWorker);
  };
  if (locks === undefined || lock === undefined) connect();
  else release = holdLock(locks, lock, connect);
  return {
    receive: (message) => (instead ?? { receive: (each: ToHub) => port?.postMessage(each) }).receive(message),
    close: () => {
      if (instead === undefined) stop();
      isClosed = true;
      instead?.close();
    },
  };
}

/** Serves the tabs that connect to this worker. */
export function serveTabs(): void {
  const hubs = new Map<string, { readonly hub: Hub; tabs: number }>();
  const locks = platform.navigator?.locks;
  const lock = locks === undefined ? undefined : `${SHARED_NAME} worker ${randomName()}`;
  const ready =
    locks === undefined || lock === undefined
      ? Promise.resolve()
      : new Promise<void>((resolve) => void holdLock(locks, lock, resolve));
  platform.addEventListener?.('connect', ({ ports: [port] = [] }) => {
    let end: HubEnd | undefined;
    let forget: () => void = () => undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    if (port === undefined) return;
    const tell = (message: FromWorker): void => port.postMessage(message);
    const close = (): void => {
      clearTimeout(timer);
      end?.close();
      end = undefined;
      forget();
      forget = () => undefined;
    };
    const open = ({ settings, lock: tabsLock }: Hello): void => {
      const key = JSON.stringify(settings);
      const shared = hubs.get(key) ?? { hub: new Hub(settings, (...request) => fetch(...request)), tabs: 0 };
      hubs.set(key, shared);
      shared.tabs++;
      end = shared.hub.attach(tell);
      let leaveQueue: () => void = () => undefined;
      forget = () => {
        leaveQueue();
        if (--shared.tabs > 0) return;
        shared.hub.close();
        hubs.delete(key);
      };
      if (locks !== undefined && tabsLock !== undefined)
        leaveQueue = holdLock(locks, tabsLock, () => queueMicrotask(close));
      void ready.then(() => {
        tell({ kind: 'welcome', lock });
        tell({ kind: 'restart' });
      });
    };
    let hello: Hello | undefined;
    receiveFrom(port, (data) => {
      const message = data as ToWorker;
      if (message.kind === 'bye') {
        close();
        port.close();
        return;
      }
      if (message.kind === 'hello') hello = message;
      // A tab that was thought to be dead, and only slept, is let in once more.
      if (end === undefined && hello !== undefined) open(hello);
      if (hello?.lock === undefined) {
        clearTimeout(timer);
        timer = setTimeout(close, PING_MISSED_MS);
      }
      if (message.kind === 'ping') tell({ kind: 'pong' });
      else if (message.kind !== 'hello') end?.receive(message);
    });
  });
}

type Common = { readonly kind: 'leader' } | { readonly kind: 'hello'; readonly tab: string };

/** A hub in the tab that has the lock, reached by the others over BroadcastChannels. */
function lockedHub(settings: StreamSettings, ask: typeof fetch, receive: Receive): HubEnd {
  const locks = platform.navigator?.locks;
  const { BroadcastChannel: Channel } = platform;
  if (locks === undefined || Channel === undefined) return ownHub(settings, ask, receive);
  let isClosed = false;
  let end: HubEnd | undefined;
  let stop: () => void = () => undefined;
  void nameOf(settings).then((name) => {
    if (isClosed) return;
    const tab = randomName();
    const common = new Channel(name);
    const own = new Channel(`${name} ${tab}`);
    let lead: Leader | undefined;
    receiveFrom(own, (data) => receive(data as ToTab));
    receiveFrom(common, (data) => {
      const message = data as Common;
      if (message.kind === 'hello') lead?.letIn(message.tab);
      else common.postMessage({ kind: 'hello', tab } satisfies Common);
    });
    end = { receive: (message) => own.postMessage(message), close: () => undefined };
    // The leader waits for this lock, to know when the tab has died: it must be held before the leader hears of it.
    const releaseOwn = holdLock(locks, `${name} ${tab}`, () =>
      common.postMessage({ kind: 'hello', tab } satisfies Common),
    );
    const releaseLead = holdLock(locks, name, () => {
      lead = new Leader(
        new Hub(settings, ask),
        (of, held) => holdLock(locks, `${name} ${of}`, held),
        (of) => new Channel(`${name} ${of}`),
      );
      end = lead.hub.attach(receive);
      receive({ kind: 'restart' });
      common.postMessage({ kind: 'leader' } satisfies Common);
    });
    stop = () => {
      lead?.close();
      releaseLead();
      releaseOwn();
      common.close();
      own.close();
    };
  });
  return {
    receive: (message) => end?.receive(message),
    close: () => {
      isClosed = true;
      stop();
    },
  };
}

/** The other tabs of the tab that leads. */
class Leader {
  readonly hub: Hub;
  readonly #queueFor: (tab: string, held: () => void) => () => void;
  readonly #channelOf: (tab: string) => MessageEnd;
  readonly #tabs = new Map<string, () => void>();

  constructor(
    hub: Hub,
    queueFor: (tab: string, held: () => void) => () => void,
    channelOf: (tab: string) => MessageEnd,
  ) {
    this.hub = hub;
    this.#queueFor = queueFor;
    this.#channelOf = channelOf;
  }

  letIn(tab: string): void {
    this.#tabs.get(tab)?.();
    const channel = this.#channelOf(tab);
    const end = this.hub.attach((message) => channel.postMessage(message));
    receiveFrom(channel, (data) => end.receive(data as ToHub));
    const leave = (): void => {
      this.#tabs.delete(tab);
      leaveQueue();
      end.close();
      channel.close();
    };
    // The tab's own lock: this tab has it when that one is gone.
    const leaveQueue = this.#queueFor(tab, () => queueMicrotask(leave));
    this.#tabs.set(tab, leave);
    channel.postMessage({ kind: 'restart' } satisfies ToTab);
  }

  close(): void {
    this.hub.close();
    for (const leave of this.#tabs.values()) leave();
  }
}

/** Returns a name that tabs with the same settings have, and that does not tell the token. */
async function nameOf(settings: StreamSettings): Promise<string> {
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(JSON.stringify(settings)));
  return `${SHARED_NAME} ${[...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

/** Returns true in a SharedWorker that runs this file as its program. */
export function isWorker(): boolean {
  return (
    platform.SharedWorkerGlobalScope !== undefined && platform.document === undefined && platform.name === SHARED_NAME
  );
}
