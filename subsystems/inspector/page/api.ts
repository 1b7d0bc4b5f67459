/** The server's routes, as the page uses them. A refused request is an `ApiError` with the server's own message. */
import type { DidInterface } from './candid/did-types.ts';
import { readInterface, type TypeTable } from './candid/read-interface.ts';
import { arrived, errorOf } from './api-errors.ts';
import type { PrintedLine } from './output-lines.ts';
import type { ToldRights } from './rights.ts';
import type { UpgradeReport } from './upgrade-changes.ts';
import { EventStream, type StreamEvent } from './event-stream.ts';

/** An actor in the list, as `/x/host` shows it. */
export interface ListedActor {
  readonly id: string;
  readonly principal: string;
  readonly name: string;
  readonly status: string;
  readonly live: boolean;
  readonly cycles: string;
  /** True if the balance is too low for any message. */
  readonly dry: boolean;
  readonly heapBytes: number;
  readonly stableBytes: number;
  readonly messages: number;
  readonly traps: number;
  readonly queued: number;
  readonly idleMs: number;
}

/** An actor with its code, as `/inspect` shows it. */
export interface Actor extends ListedActor {
  readonly moduleHash: string | null;
  readonly methods: readonly { readonly name: string; readonly kind: string }[];
  readonly candid: string | null;
  readonly candidProblem: string | null;
  /** True if the token does not show the host: state and figures are not known, `name` is as the address has it. */
  readonly isPartial?: boolean;
}

export interface HistoryEntry {
  readonly seq: number;
  /** Id of the message. */
  readonly id: string;
  readonly time: string;
  readonly kind: string;
  readonly method: string;
  readonly caller: string;
  readonly args: string;
  /** Shown like `args`; null where there is none. */
  readonly reply?: string | null;
  /** Id of the message whose execution sent this one. */
  readonly cause?: string | null;
  readonly outcome: string;
  readonly code?: number | null;
  readonly message?: string | null;
  /** Functions that were open when a message failed, innermost first. */
  readonly stack?: readonly string[] | null;
  readonly instructions: number | string;
  readonly cycles: number | string;
  readonly ms: number;
}

/** A message of any actor. */
export interface ActorMessage extends HistoryEntry {
  /** Id and name of the actor. */
  readonly actor: string;
  readonly name: string;
}

/** The host in figures; sums are those of all actors. */
interface HostFigures {
  readonly uptimeMs: number;
  readonly processBytes: number;
  readonly stateBytes: number | null;
  readonly actors: number;
  readonly states: Readonly<Record<string, number>>;
  readonly messages: number;
  readonly traps: number;
  readonly queued: number;
  readonly memoryBytes: number;
}

export interface CallRequest {
  readonly actor: string;
  readonly method: string;
  readonly isQuery: boolean;
  readonly isLossless: boolean;
  /** Principal of the caller; empty: anonymous. */
  readonly caller: string;
  readonly json: string;
  /** Candid bytes in hex, in place of `json`. */
  readonly hex?: string;
}

/** Result of a call; a refusal is shown as an answer, too. */
export interface CallAnswer {
  /** Id of the message; undefined: nothing was executed, or no histories are kept. */
  readonly messageId: string | undefined;
  readonly status: number;
  readonly text: string;
  /** True if `text` is bytes in hex. */
  readonly isHex?: boolean;
  readonly ms: number;
}

interface UpgradeRequest {
  readonly actor: string;
  /** Module to install; undefined: the manifest's file again. */
  readonly module: ArrayBuffer | undefined;
  /** Argument in hex, may be empty. */
  readonly argument: string;
  readonly isForced: boolean;
}

interface InstallRequest {
  readonly name: string;
  readonly module: File;
  /** Candid text or a JSON array; empty: none. */
  readonly args: string;
  /** Empty: the module's own. */
  readonly did: string;
  /** Empty: the host's default. */
  readonly cycles: string;
  readonly isReinstallation: boolean;
}

export interface ActorSnapshot {
  readonly id: string;
  readonly time: string;
  readonly bytes: number;
}

/** Choice of actors for the list. */
interface HostRequest {
  /** Part of a name, id or principal; empty: all actors. */
  readonly find: string;
  /** Empty: all states. */
  readonly state: string;
  readonly sort: string;
  readonly isDescending: boolean;
  readonly offset: number;
  readonly limit: number;
  /** The open actor; undefined: none is open. */
  readonly open: string | undefined;
}

/** The host, a page of its actors and the open one, as the server has just shown them. */
export interface HostRound {
  readonly host: HostFigures;
  /** Number of actors that the search leaves. */
  readonly matching: number;
  readonly actors: readonly ListedActor[];
  /** Newest first. */
  readonly failures: readonly ActorMessage[];
  /** Undefined if none is open, or the server has none of that name. */
  readonly opened: Actor | undefined;
  /** Messages of the open actor, oldest first. */
  readonly history: readonly HistoryEntry[];
}

/** Returns the path for a call, also for curl. */
export function callPath({ actor, method, isQuery, isLossless }: CallRequest): string {
  const route = isQuery ? 'query-json' : 'call-json';
  return `/${route}/${encodeURIComponent(actor)}/${encodeURIComponent(method)}${isLossless ? '?lossless=1' : ''}`;
}

/** Path below which an actor's settings and snapshots are. */
function operatedPath(actor: string): string {
  return `/x/actors/${encodeURIComponent(actor)}`;
}

export class Api {
  readonly #token: string;

  /** `token` is empty if none is known. */
  constructor(token: string) {
    this.#token = token;
  }

  /** Follows `/x/host`, which shows host and actors every 2 s; ends when the server ends the stream. */
  async *hostRounds(request: HostRequest, signal: AbortSignal): AsyncGenerator<HostRound, undefined> {
    const { find, state, sort, isDescending, offset, limit, open } = request;
    const query = new URLSearchParams({ sort, order: isDescending ? 'desc' : 'asc', limit: String(limit) });
    if (offset > 0) query.set('offset', String(offset));
    if (find !== '') query.set('find', find);
    if (state !== '') query.set('state', state);
    if (open !== undefined) query.set('actor', open);
    let opened: Actor | undefined;
    let history: readonly HistoryEntry[] = [];
    for await (const { type, data } of this.#follow(`/x/host?${query.toString()}`, {}, signal)) {
      if (type === 'actor') opened = (JSON.parse(data) as Actor | null) ?? undefined;
      else if (type === 'history') history = JSON.parse(data) as readonly HistoryEntry[];
      else if (type === 'message') {
        yield { ...(JSON.parse(data) as Omit<HostRound, 'opened' | 'history'>), opened, history };
      }
    }
  }

  /** Reads what the server answers there as text. */
  async text(
    path: '/metrics' | '/version' | `/${'x/actors' | 'candid' | 'cycles'}/${string}`,
    signal: AbortSignal,
  ): Promise<string> {
    return (await this.#send('GET', path, { signal })).text;
  }

  /** Reads `{"version","build","node","v8"}`, which needs no token. */
  async version(): Promise<{ readonly version: string; readonly build: string }> {
    return JSON.parse((await this.#send('GET', '/version', {})).text) as { version: string; build: string };
  }

  /** Reads what the token may do. Fails with an ApiError of status 401, with the server's reason, if it is none. */
  async rights(signal: AbortSignal): Promise<ToldRights> {
    const response = await this.#fetch('GET', '/x/me', { signal });
    const text = await arrived(response.text());
    if (response.ok) return JSON.parse(text) as ToldRights;
    const [, reason] = /error_description="([^"]*)"/.exec(response.headers.get('www-authenticate') ?? '') ?? [];
    throw errorOf(response.status, reason ?? text);
  }

  /** Reads an actor's messages, oldest first. */
  async historyOf(actor: string, signal: AbortSignal): Promise<readonly HistoryEntry[]> {
    const { text } = await this.#send('GET', `/history/${encodeURIComponent(actor)}`, { signal });
    return JSON.parse(text) as HistoryEntry[];
  }

  /** Reads the types of an actor's interface. Fails with an ApiError if there is none that is understood. */
  async interfaceOf(actor: string, signal: AbortSignal): Promise<DidInterface> {
    const headers = { accept: 'application/json' };
    const { text } = await this.#send('GET', `/candid/${encodeURIComponent(actor)}`, { headers, signal });
    return readInterface(JSON.parse(text) as TypeTable);
  }

  /** Reads the types of an interface that no actor has yet. Fails with an ApiError if it is not understood. */
  async typesOf(candid: string, init: string | undefined, signal: AbortSignal): Promise<DidInterface> {
    const body = JSON.stringify({ candid, init });
    return readInterface(JSON.parse((await this.#send('POST', '/x/types', { body, signal })).text) as TypeTable);
  }

  /** Installs a module as a new actor, or as new code without state of the one that is there. */
  async install({ name, module, args, did, cycles, isReinstallation }: InstallRequest): Promise<void> {
    const form = new FormData();
    form.append('wasm', module);
    if (did !== '') form.append('candid', did);
    if (args !== '') form.append('args', args);
    if (cycles !== '') form.append('cycles', cycles);
    const mode = isReinstallation ? '?mode=reinstall' : '';
    await this.#send('POST', `/install/${encodeURIComponent(name)}${mode}`, { body: form });
  }

  /** Resolves with `started` or `stopped`. */
  async startOrStop(actor: string, change: 'start' | 'stop'): Promise<string> {
    return (await this.#send('POST', `/${change}/${encodeURIComponent(actor)}`, {})).text;
  }

  /** Deletes an actor; `endsCalls`: also one that is not stopped. */
  async remove(actor: string, endsCalls: boolean): Promise<void> {
    await this.#send('DELETE', `/actors/${encodeURIComponent(actor)}${endsCalls ? '?force=true' : ''}`, {});
  }

  async giveInterface(actor: string, did: string): Promise<void> {
    await this.#send('PUT', `/candid/${encodeURIComponent(actor)}`, { body: did });
  }

  async settings(actor: string): Promise<unknown> {
    return JSON.parse((await this.#send('GET', `${operatedPath(actor)}/settings`, {})).text) as unknown;
  }

  /** Changes the settings that the JSON object names, and resolves with all of them. */
  async changeSettings(actor: string, json: string): Promise<unknown> {
    return JSON.parse((await this.#send('PUT', `${operatedPath(actor)}/settings`, { body: json })).text) as unknown;
  }

  /** Reads which methods answer without the token. */
  async openMethods(actor: string, signal: AbortSignal): Promise<readonly string[]> {
    return JSON.parse((await this.#send('GET', `${operatedPath(actor)}/public`, { signal })).text) as string[];
  }

  /** Opens these methods and closes all others; resolves with those that are open. */
  async changeOpenMethods(actor: string, names: readonly string[]): Promise<readonly string[]> {
    const body = JSON.stringify(names);
    return JSON.parse((await this.#send('PUT', `${operatedPath(actor)}/public`, { body })).text) as string[];
  }

  async snapshots(actor: string): Promise<readonly ActorSnapshot[]> {
    return JSON.parse((await this.#send('GET', `${operatedPath(actor)}/snapshots`, {})).text) as ActorSnapshot[];
  }

  async takeSnapshot(actor: string): Promise<ActorSnapshot> {
    return JSON.parse((await this.#send('POST', `${operatedPath(actor)}/snapshots`, {})).text) as ActorSnapshot;
  }

  async loadSnapshot(actor: string, id: string): Promise<void> {
    await this.#send('POST', `${operatedPath(actor)}/snapshots/${encodeURIComponent(id)}/load`, {});
  }

  async deleteSnapshot(actor: string, id: string): Promise<void> {
    await this.#send('DELETE', `${operatedPath(actor)}/snapshots/${encodeURIComponent(id)}`, {});
  }

  /** Reads an answer as a file. */
  async file(path: string): Promise<Blob> {
    const response = await this.#fetch('GET', path, {});
    if (!response.ok) throw errorOf(response.status, await arrived(response.text()));
    return arrived(response.blob());
  }

  /** Follows a query's results (`/watch`): events as docs/http.md, "Live queries", has them. */
  watch(request: CallRequest, signal: AbortSignal): AsyncGenerator<StreamEvent, undefined> {
    const query = new URLSearchParams({ args: request.json });
    if (request.isLossless) query.set('lossless', '1');
    const headers: Record<string, string> = request.caller === '' ? {} : { 'x-caller': request.caller };
    const path = `/watch/${encodeURIComponent(request.actor)}/${encodeURIComponent(request.method)}`;
    return this.#follow(`${path}?${query.toString()}`, headers, signal);
  }

  async addCycles(actor: string, amount: string): Promise<string> {
    return (await this.#send('POST', `/cycles/${encodeURIComponent(actor)}`, { body: amount })).text;
  }

  /** Upgrades the actor and resolves with the changes; a refusal is an ApiError, usually with a report. */
  async upgrade({ actor, module, argument, isForced }: UpgradeRequest): Promise<UpgradeReport> {
    const query = ['report=1'];
    if (argument !== '') query.push(`arg=0x${encodeURIComponent(argument.replace(/^0x/i, ''))}`);
    if (isForced) query.push('force=true');
    const path = `/upgrade/${encodeURIComponent(actor)}?${query.join('&')}`;
    const { text } = await this.#send('POST', path, module === undefined ? {} : { body: module });
    return JSON.parse(text) as UpgradeReport;
  }

  /** Makes a call; `signal` ends the waiting. */
  async call(request: CallRequest, signal: AbortSignal): Promise<CallAnswer> {
    const startedMs = performance.now();
    const headers: Record<string, string> = {};
    if (request.caller !== '') headers['x-caller'] = request.caller;
    // A browser repeats a request by itself if the connection breaks: by the key the server recognises the repetition.
    if (!request.isQuery) headers['idempotency-key'] = freshKey();
    const response = await this.#fetch('POST', callPath(request), { body: request.json, headers, signal });
    const messageId = response.headers.get('svc-message') ?? undefined;
    return {
      status: response.status,
      messageId,
      text: await arrived(response.text()),
      ms: performance.now() - startedMs,
    };
  }

  /** Calls with Candid bytes; the answer's text is hex where it is a reply. */
  async callRaw(request: CallRequest, bytes: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<CallAnswer> {
    const startedMs = performance.now();
    const headers: Record<string, string> = {};
    if (request.caller !== '') headers['x-caller'] = request.caller;
    if (!request.isQuery) headers['idempotency-key'] = freshKey();
    const path = rawPath(request);
    const response = await this.#fetch('POST', path, { body: bytes, headers, signal });
    const messageId = response.headers.get('svc-message') ?? undefined;
    const answer = await arrived(response.arrayBuffer());
    const text = response.ok ? hexOf(new Uint8Array(answer)) : new TextDecoder().decode(answer);
    return { status: response.status, messageId, text, isHex: response.ok, ms: performance.now() - startedMs };
  }

  /** Reads a message and all that it caused, over all actors; undefined: no history has it, at least not yet. */
  async messages(id: string, signal: AbortSignal): Promise<readonly ActorMessage[] | undefined> {
    const { status, text } = await this.#ask('GET', `/x/messages/${encodeURIComponent(id)}`, { signal });
    if (status === 404) return undefined;
    if (status !== 200) throw errorOf(status, text);
    return JSON.parse(text) as readonly ActorMessage[];
  }

  /** Returns the name of the actor that is this principal; undefined: there is none here. */
  async nameOf(principal: string, signal: AbortSignal): Promise<string | undefined> {
    const { text } = await this.#send('GET', `/x/host?find=${encodeURIComponent(principal)}&limit=1`, { signal });
    const { actors } = JSON.parse(text) as Pick<HostRound, 'actors'>;
    return actors.find((actor) => actor.principal === principal)?.name;
  }

  /**
   * Follows what an actor prints, and calls `opened` when that begins; ends when the server ends the stream.
   * `after`: id of the last line that is known; empty: none.
   */
  output(
    actor: string,
    after: string,
    { signal, opened }: { readonly signal: AbortSignal; readonly opened: () => void },
  ): AsyncGenerator<StreamEvent, undefined> {
    const query = after === '' ? '' : `?after=${encodeURIComponent(after)}`;
    return this.#follow(`${operatedPath(actor)}/output${query}`, {}, signal, opened);
  }

  /** Reads what a message has printed, as far as the server still has it. */
  async printedBy(actor: string, message: string, signal: AbortSignal): Promise<readonly PrintedLine[]> {
    const path = `${operatedPath(actor)}/output?message=${encodeURIComponent(message)}`;
    return JSON.parse((await this.#send('GET', path, { signal })).text) as PrintedLine[];
  }

  async *#follow(
    path: string,
    headers: Record<string, string>,
    signal: AbortSignal,
    opened?: () => void,
  ): AsyncGenerator<StreamEvent, undefined> {
    const accepting = { ...headers, accept: 'text/event-stream' };
    const response = await this.#fetch('GET', path, { headers: accepting, signal });
    if (!response.ok) throw errorOf(response.status, await arrived(response.text()));
    opened?.();
    if (response.body === null) return;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const stream = new EventStream();
    for (;;) {
      const { done, value } = await arrived(reader.read());
      if (done) return;
      yield* stream.push(value);
    }
  }

  /** Sends a request that must succeed. */
  async #send(method: string, path: string, init: RequestInit): Promise<WholeAnswer> {
    const answer = await this.#ask(method, path, init);
    if (answer.status < 200 || answer.status > 299) throw errorOf(answer.status, answer.text);
    return answer;
  }

  async #ask(method: string, path: string, init: RequestInit): Promise<WholeAnswer> {
    const response = await this.#fetch(method, path, init);
    return { status: response.status, text: await arrived(response.text()) };
  }

  #fetch(method: string, path: string, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.#token !== '') headers.set('authorization', `Bearer ${this.#token}`);
    return arrived(
      fetch(path, { ...init, method, headers, cache: 'no-store', credentials: 'omit', redirect: 'error' }),
    );
  }
}

interface WholeAnswer {
  readonly status: number;
  readonly text: string;
}

/** Returns the path for a call with Candid bytes. */
export function rawPath({ actor, method, isQuery }: CallRequest): string {
  return `/${isQuery ? 'query' : 'call'}/${encodeURIComponent(actor)}/${encodeURIComponent(method)}`;
}

function hexOf(bytes: Uint8Array): string {
  const parts: string[] = [];
  for (const byte of bytes) parts.push(byte.toString(16).padStart(2, '0'));
  return parts.join('');
}

/** Returns 128 random bits. `randomUUID` exists only in secure contexts, which http to another machine is not. */
function freshKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
