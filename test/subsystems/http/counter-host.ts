import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { type Clock, type LogFields, type Logger, ServerError, systemClock } from '../../../kernel/index.ts';
import { NoAgents } from '../../../subsystems/agents/no-agents.ts';
import type { Auth } from '../../../subsystems/auth/index.ts';
import { type BearerAuthOptions, createBearerAuth } from '../../../subsystems/auth/bearer-auth.ts';
import {
  type Canister,
  type CanisterFailure,
  type CanisterWatcher,
  type CausedMessage,
  type ClientMessage,
  type DebugLine,
  type HistoryEntry,
  InstallError,
  type OutputFollowing,
  type OutputReader,
  type RemoveOptions,
  type InstallOptions,
  UpgradeError,
  type UpgradeOptions,
  type UpgradeReport,
} from '../../../subsystems/canisters/index.ts';
import type { PastActors } from '../../../subsystems/canisters/past/index.ts';
import { DebugBuffer } from '../../../subsystems/canisters/debug-buffer.ts';
import { OutputFeed } from '../../../subsystems/canisters/output-feed.ts';
import { OutputReaders } from '../../../subsystems/canisters/output-readers.ts';
import type { CandidInterface, Codec, TupleCodec } from '../../../subsystems/codec/index.ts';
import type { Gateway } from '../../../subsystems/gateway/index.ts';
import type { MessageTrace, MethodKind, Outcome } from '../../../subsystems/ic/index.ts';
import { createHttpServer } from '../../../subsystems/http/http-server.ts';
import type {
  HttpServerNeeds,
  HttpServerOptions,
  OpenableHttpServer,
} from '../../../subsystems/http/http-server-options.ts';
import { OneServer } from '../../../subsystems/cluster/one-server.ts';
import type { ServedCanisters } from '../../../subsystems/http/route.ts';
import { NoInspector } from '../../../subsystems/inspector/no-inspector.ts';
import { createMetering } from '../../../subsystems/metering/create-metering.ts';
import { NoMetrics } from '../../../subsystems/metrics/no-metrics.ts';
import { NoMopsClosures } from '../../../subsystems/mops-closure/no-mops-closures.ts';
import { NoReplay } from '../../../subsystems/replay/no-replay.ts';
import { NoTimeline } from '../../../subsystems/timeline/no-timeline.ts';
import { NoVariables } from '../../../subsystems/variables/no-variables.ts';
import { NoOpenApi } from '../../../subsystems/openapi/no-openapi.ts';
import { CounterOperator } from './counter-operator.ts';
import { ScriptedGateway } from './scripted-gateway.ts';
import type { Storage } from '../../../subsystems/storage/index.ts';
import { NoStorage } from '../../../subsystems/storage/no-storage.ts';

/**
 * Canisters in TypeScript whose "Candid" is plain JSON text: just the parts of other rooms that the HTTP room needs.
 */

/** A value of this codec is JSON text; anything but an array is refused, with its place. */
export const jsonTextCodec: TupleCodec = {
  encode: (json) => checkedArray(json),
  decode: (candid) => checkedArray(candid),
  encodeAnySize: (json) => checkedArray(json),
  decodeAnySize: (candid) => checkedArray(candid),
  encodeText: (text) => checkedArray(Buffer.from(text)),
  encodeTextAnySize: (utf8) => checkedArray(utf8),
};

function checkedArray(bytes: Uint8Array): Uint8Array {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    throw new ServerError('invalid', 'bad-json', 'args: expected JSON');
  }
  if (!Array.isArray(value)) throw new ServerError('invalid', 'bad-json', 'args: expected an array');
  return bytes;
}

export const counterCodec: Pick<Codec, 'untyped' | 'previewText'> = {
  untyped: jsonTextCodec,
  previewText: (bytes) => (bytes[0] === 0xff ? undefined : `(${Buffer.from(bytes).toString('latin1')})`),
};

/** The prices are shown, and nothing is charged. */
export const counterMetering = createMetering({
  isEnabled: true,
  instructionLimit: 40_000_000_000,
  startingCycles: 10n ** 20n,
});

const nothing = (): Promise<never> => Promise.reject(new Error('counters have no past'));
export const NO_PAST: PastActors = { restore: nothing, fork: nothing, ask: nothing };

type Behaviour = (call: {
  caller: Uint8Array;
  argument: Uint8Array;
  canister: CounterCanister;
}) => Outcome | Promise<Outcome>;

const COST = { instructions: 10, charge: 590_004 };
const reply = (data: string | Uint8Array): Outcome => ({
  ...COST,
  kind: 'reply',
  data: typeof data === 'string' ? Buffer.from(data) : data,
});
const fault = (kind: Exclude<Outcome['kind'], 'reply'>, code: 1 | 2 | 3 | 4 | 5 | 6, message: string): Outcome => ({
  ...COST,
  kind,
  code,
  message,
});

const METHODS: Readonly<Record<string, readonly [MethodKind, Behaviour]>> = {
  inc: ['update', ({ canister }) => reply(`[${++canister.count}]`)],
  get: ['query', ({ canister }) => reply(`[${canister.count}]`)],
  echo: ['update', ({ argument }) => reply(argument)],
  repeat: ['query', ({ argument }) => reply(argument)],
  'with space/slash%': ['update', () => reply('["odd"]')],
  whoami: ['query', ({ caller }) => reply(JSON.stringify([Buffer.from(caller).toString('hex')]))],
  boom: ['update', () => fault('trap', 5, 'canister trapped: boom')],
  limit: ['update', () => fault('limit', 5, 'instruction limit of 10 passed')],
  reject: ['update', () => fault('reject', 4, 'no, thanks ✗')],
  silent: ['update', () => fault('noReply', 5, 'did not reply')],
  dry: ['update', () => fault('outOfCycles', 2, 'out of cycles')],
  gone: ['update', () => fault('unavailable', 2, "the actor's thread has stopped")],
  garbage: ['query', () => reply('not JSON at all')],
  crash: ['update', () => Promise.reject(new Error('secret cause'))],
  slow: ['update', ({ canister }) => canister.held.then(() => reply('["done"]'))],
  late: ['query', ({ canister }) => canister.held.then(() => reply('["done"]'))],
  hidden: ['query', () => reply('["hidden"]')],
  everything: ['composite_query', () => reply('[]')],
  moody: [
    'query',
    ({ canister }) => {
      if (canister.mood === 'trap') return fault('trap', 5, 'canister trapped: moody');
      if (canister.mood === 'gone') return fault('unavailable', 2, "the actor's thread has stopped");
      return reply(canister.mood ?? `[${canister.count}]`);
    },
  ],
  large: ['query', ({ canister }) => reply(JSON.stringify([`${canister.count} `.padEnd(1_000_000, 'x')]))],
};

/** A body whose hooks trap. */
export const TRAPPING_MODULE = Uint8Array.of(0xff);
/** A body that is refused unless it is forced. */
export const UNFIT_MODULE = Uint8Array.of(0xfe);

export const UPGRADE_REPORT: UpgradeReport = {
  isUpgraded: false,
  module: { from: undefined, to: 'cd'.repeat(32) },
  stable: {
    checked: true,
    checker: 'bundled',
    compatible: true,
    added: [{ path: 'b', type: 'var Nat' }],
    removed: [],
    changed: [],
    message: null,
  },
  candid: { compatible: null, added: [], removed: [], changed: [] },
  persistence: 'keep',
  instructions: 0,
};

export class CounterCanister implements Canister {
  readonly name: string;
  readonly id: Uint8Array;
  readonly idHex: string;
  principal = 'bkyz2-fmaaa-aaaaa-qaaaq-cai';
  readonly controllers: Canister['controllers'] = [];
  status: Canister['status'] = 'running';
  isLive = true;
  codeChanges = 1;
  queued = 0;
  heapBytes = 65_536;
  readonly stableBytes = 0;
  messages = 3;
  traps = 1;
  messagesByName = 0;
  readonly trapsByName = 0;
  messagesById = 0;
  readonly trapsById = 0;
  readonly lastMessageMs = systemClock.nowMs();
  candid: CandidInterface | undefined;
  candidProblem: string | undefined;
  readonly module = {
    hash: 'ab'.repeat(32),
    pointerWidth: 32 as const,
    methods: new Map(Object.entries(METHODS).map(([name, [kind]]) => [name, kind])),
    entries: new Map<string, number>(),
    globals: [],
    globalsBytes: 0,
    metadata: new Map(),
    candid: undefined,
    candidArgs: undefined,
  };
  openMethods: Canister['openMethods'] = { names: new Set(), isOfManifest: false };
  balance = 10n ** 20n;
  count = 0;
  /** Kind of the answers of `moody`. */
  mood: 'trap' | 'gone' | 'garbage' | undefined;
  readonly buffer = new DebugBuffer();
  readonly feed = new OutputFeed(this.buffer, systemClock, () => undefined);
  readonly readers = new OutputReaders(this.buffer);
  history: HistoryEntry[] = [];
  print(text: string, timeMs = 0, message = 0): void {
    this.buffer.append(timeMs, text, message);
    this.feed.printed();
    this.readers.printed();
  }

  /** `slow` answers when this resolves. */
  held: Promise<void> = Promise.resolve();

  constructor(name: string, number: number, hasInterface = true, shard = 0) {
    this.name = name;
    this.id = Uint8Array.of(0x80, 0, shard, 0, 0, 0x10, 0, number, 1, 1);
    this.idHex = Buffer.from(this.id).toString('hex');
    if (hasInterface) {
      const methods = [...this.module.methods.keys()].filter((method) => method !== 'hidden');
      this.candid = {
        text: 'service : { inc : () -> (nat) }',
        methods: new Map(
          methods.map((method) => [
            method,
            { name: method, kind: 'update', args: jsonTextCodec, results: jsonTextCodec },
          ]),
        ),
        initArgs: undefined,
      };
    }
  }
}

export class CounterCanisters implements ServedCanisters {
  readonly canisters = [new CounterCanister('counter', 1), new CounterCanister('bare', 2, false)];
  /** Keys of calls, in the order in which the calls came. */
  readonly keys: (string | undefined)[] = [];
  readonly installed: { name: string; bytes: number; options: InstallOptions }[] = [];
  readonly upgraded: { name: string; bytes: number | undefined; options: UpgradeOptions }[] = [];
  readonly reinstalled: { name: string; bytes: number; options: InstallOptions }[] = [];

  readonly operator = new CounterOperator((canister) => this.resolve(canister.name));

  resolve(reference: string): CounterCanister {
    const found = this.canisters.find(({ name, idHex }) => name === reference || idHex === reference);
    if (found === undefined) throw new ServerError('missing', 'no-such-actor', `no such actor: ${reference}`);
    return found;
  }

  resolveIfAny(reference: string): CounterCanister | undefined {
    return this.canisters.find(({ name, idHex }) => name === reference || idHex === reference);
  }

  get haveOpenMethods(): boolean {
    return this.canisters.some(({ openMethods }) => openMethods.names.size > 0);
  }

  async setOpenMethods(canister: Canister, names: readonly string[]): Promise<void> {
    const found = this.resolve(canister.name);
    if (names.includes('@own')) throw new ServerError('invalid', 'bad-public', '"@own" is an internal method');
    found.openMethods = { names: new Set(names), isOfManifest: false };
    this.#tell(found, (watcher) => watcher.openMethodsChanged?.());
  }

  list(): readonly CounterCanister[] {
    return this.canisters;
  }

  async interfaceOf(canister: Canister): Promise<CandidInterface | undefined> {
    return this.resolve(canister.name).candid;
  }

  async giveInterface(canister: Canister, did: string): Promise<void> {
    const found = this.resolve(canister.name);
    if (found.candid !== undefined) throw new ServerError('invalid', 'interface-own', `${found.name} carries its own`);
    found.candid = { text: did, methods: new Map(), initArgs: undefined };
  }

  async call(canister: Canister, message: ClientMessage): Promise<Outcome> {
    const { kind, method, caller, argument, addressedBy, idempotencyKey } = message;
    this.keys.push(idempotencyKey);
    if (idempotencyKey === 'used') throw new ServerError('unprocessable', 'idempotency-key-reused', 'another argument');
    if (idempotencyKey === 'many') throw new ServerError('unavailable', 'idempotency-full', 'too many keys');
    const [methodKind, behaviour] = METHODS[method] ?? [];
    if (behaviour === undefined)
      throw new ServerError('missing', 'no-such-method', `actor ${canister.name} has no method ${method}`);
    if (kind === 'query' && methodKind === 'update')
      throw new ServerError('invalid', 'not-a-query', `${method} is an update method`);
    const found = this.resolve(canister.name);
    if (addressedBy === 'name') found.messagesByName++;
    else found.messagesById++;
    if (found.status !== 'running') return fault('reject', 5, `${found.name} is ${found.status}`);
    const outcome = await behaviour({ caller, argument, canister: found });
    if (methodKind === 'update' && outcome.kind === 'reply') this.#tell(found, (watcher) => watcher.changed());
    return outcome;
  }

  ask(canister: Canister, method: string, caller: Uint8Array, argument: Uint8Array): Promise<Outcome> {
    return this.call(canister, { kind: 'query', method, caller, argument, addressedBy: 'name' });
  }

  async install(name: string, moduleBytes: Uint8Array, options: InstallOptions): Promise<CounterCanister> {
    if (this.canisters.some((canister) => canister.name === name)) {
      throw new ServerError('invalid', 'already-installed', `${name} is already installed: use upgrade`);
    }
    if (name === 'trapping')
      throw new InstallError({ ...COST, kind: 'trap', code: 5, message: 'init trapped' }, ['line 1', 'line 2']);
    this.installed.push({ name, bytes: moduleBytes.length, options });
    const canister = new CounterCanister(name, 3);
    this.canisters.push(canister);
    return canister;
  }

  async upgrade(
    canister: Canister,
    moduleBytes: Uint8Array | undefined,
    options: UpgradeOptions,
  ): Promise<UpgradeReport> {
    const { name } = this.resolve(canister.name);
    if (moduleBytes === undefined && name === 'bare') {
      throw new ServerError('invalid', 'no-wasm-recorded', 'no wasm recorded for that actor');
    }
    if (moduleBytes?.[0] === TRAPPING_MODULE[0]) {
      throw new InstallError({ ...COST, kind: 'trap', code: 5, message: 'hook trapped' }, ['saving'], UPGRADE_REPORT);
    }
    if (moduleBytes?.[0] === UNFIT_MODULE[0] && options.isForced !== true) {
      throw new UpgradeError(new ServerError('invalid', 'upgrade-unverified', 'nobody knows'), UPGRADE_REPORT);
    }
    this.upgraded.push({ name, bytes: moduleBytes?.length, options });
    return { ...UPGRADE_REPORT, isUpgraded: true, instructions: 7 };
  }

  async reinstall(canister: Canister, moduleBytes: Uint8Array, options: InstallOptions): Promise<void> {
    if (moduleBytes[0] === TRAPPING_MODULE[0]) {
      throw new InstallError({ ...COST, kind: 'trap', code: 5, message: 'hook trapped' }, ['starting']);
    }
    this.reinstalled.push({ name: canister.name, bytes: moduleBytes.length, options });
  }

  async stop(canister: Canister): Promise<void> {
    const found = this.resolve(canister.name);
    found.status = 'stopping';
    await found.held;
    found.status = 'stopped';
  }

  async start(canister: Canister): Promise<void> {
    this.resolve(canister.name).status = 'running';
  }

  async remove(canister: Canister, { endsCalls = false }: RemoveOptions = {}): Promise<void> {
    const found = this.resolve(canister.name);
    if (found.status !== 'stopped' && !endsCalls) {
      throw new ServerError('invalid', 'actor-not-stopped', `${found.name} is ${found.status}: stop it first`);
    }
    this.canisters.splice(this.canisters.indexOf(found), 1);
    found.feed.end();
    found.readers.end();
    this.#tell(found, (watcher) => watcher.removed());
  }

  async addCycles(canister: Canister, amount: bigint): Promise<bigint> {
    const found = this.resolve(canister.name);
    found.balance += amount;
    return found.balance;
  }

  readonly watchers = new Map<CanisterWatcher, Canister>();

  watch(canister: Canister, watcher: CanisterWatcher): Disposable {
    this.watchers.set(watcher, canister);
    return { [Symbol.dispose]: () => void this.watchers.delete(watcher) };
  }

  #tell(about: Canister, tell: (watcher: CanisterWatcher) => void): void {
    for (const [watcher, canister] of this.watchers) if (canister === about) tell(watcher);
  }

  historyOf(canister: Canister, after = -1): Iterable<HistoryEntry> {
    return this.resolve(canister.name).history.filter(({ seq }) => seq > after);
  }

  newTrace(): MessageTrace | undefined {
    return undefined;
  }

  messageIdOf(number: number): string {
    return `test-${number}`;
  }

  /** Every message of every canister. */
  async messagesAround(id: string): Promise<readonly CausedMessage[] | undefined> {
    const all = this.list().flatMap((canister) => [...this.historyOf(canister)].map((entry) => ({ canister, entry })));
    return all.some(({ entry }) => this.messageIdOf(entry.trace.number) === id) ? all : undefined;
  }

  *latestFailures(): Iterable<CanisterFailure> {
    for (const canister of this.canisters)
      for (const entry of canister.history.toReversed()) if (entry.outcome !== 'reply') yield { canister, entry };
  }

  followOutput(canister: Canister, reader: OutputReader, lastSeq?: number): OutputFollowing {
    return this.resolve(canister.name).feed.follow(reader, lastSeq);
  }

  outputOf(canister: Canister, after: number): Iterable<DebugLine> {
    return this.resolve(canister.name).buffer.linesAfter(after);
  }

  readOutput(canister: Canister, reader: OutputReader, after: number): OutputFollowing {
    return this.resolve(canister.name).readers.read(reader, after);
  }

  takeLogs(canister: Canister): readonly DebugLine[] {
    return this.resolve(canister.name).buffer.take();
  }
}

export class RecordingLog implements Logger {
  readonly events: { event: string; fields: LogFields; prose: string }[] = [];
  readonly errors: string[] = [];
  readonly warnings: string[] = [];
  event(event: string, fields: LogFields, prose: string): void {
    this.events.push({ event, fields, prose });
  }
  debug(): void {}
  readonly infos: string[] = [];
  info(message: string): void {
    this.infos.push(message);
  }
  warn(message: string): void {
    this.warnings.push(message);
  }
  error(message: string): void {
    this.errors.push(message);
  }
  announce(): void {}
}

export interface HttpHost {
  readonly origin: string;
  readonly server: OpenableHttpServer;
  readonly canisters: CounterCanisters;
  readonly gateway: ScriptedGateway;
  readonly log: RecordingLog;
  readonly auth: Auth;
  /** Answer of readiness; a test may change it. */
  readonly readiness: { isReady: boolean; note: string };
}

export interface HttpHostOptions extends Partial<HttpServerOptions> {
  readonly token?: string;
  /** Path of a file of tokens with scopes. */
  readonly tokensFile?: string;
  /** Issuers whose tokens are taken. */
  readonly jwt?: BearerAuthOptions['jwt'];
  readonly clock?: Clock;
  /** Default: no state is kept. */
  readonly storage?: Pick<Storage, 'backup'> & Partial<Pick<Storage, 'figures'>>;
  /** Default: turned on. */
  readonly metering?: HttpServerNeeds['metering'];
  /** Default: turned off. */
  readonly metrics?: HttpServerNeeds['metrics'];
  /** Default: turned off. */
  readonly openApi?: HttpServerNeeds['openApi'];
  /** Default: the server is a service by itself. */
  readonly cluster?: HttpServerNeeds['cluster'];
  /** Default: turned off. */
  readonly replay?: HttpServerNeeds['replay'];
  /** Default: turned off. */
  readonly mopsClosures?: HttpServerNeeds['mopsClosures'];
  /** Default: scripted. */
  readonly websites?: Gateway;
  /** Default: turned off. */
  readonly inspector?: HttpServerNeeds['inspector'];
}

/** Starts a listening server over counters that is closed when the test ends. */
export async function startHttpHost(t: TestContext, options: HttpHostOptions = {}): Promise<HttpHost> {
  const canisters = new CounterCanisters();
  const log = new RecordingLog();
  const readiness = { isReady: true, note: 'ready' };
  const {
    token,
    tokensFile,
    jwt,
    clock = systemClock,
    storage = new NoStorage(),
    metering = counterMetering,
    metrics = new NoMetrics(),
    openApi = new NoOpenApi(),
    cluster = new OneServer(),
    replay = new NoReplay(),
    mopsClosures = new NoMopsClosures(),
    inspector = new NoInspector(),
    ...others
  } = options;
  const gateway = new ScriptedGateway(canisters);
  const { websites = gateway, ...rest } = others;
  const auth = createBearerAuth({ token, tokensFile, jwt }, log, () => clock.nowMs());
  const server = createHttpServer(
    {
      agents: new NoAgents(),
      auth,
      cluster,
      readiness,
      canisters,
      codec: counterCodec,
      gateway: websites,
      storage: {
        backup: () => storage.backup(),
        figures: () => storage.figures?.() ?? new NoStorage().figures(),
      },
      metering,
      metrics,
      openApi,
      variables: new NoVariables(),
      timeline: new NoTimeline(),
      past: NO_PAST,
      replay,
      mopsClosures,
      inspector,
      clock,
      log,
    },
    { host: '127.0.0.1', port: 0, version: '9.8.7', build: 'abc123', ...rest },
  );
  const origin = (await server.listen()) ?? '';
  t.after(() => server.close({ signal: AbortSignal.abort() }));
  return { origin, server, canisters, gateway, log, readiness, auth };
}

/** Resolves when nobody watches a canister of the host any more; that takes a turn or two. */
export async function untilUnwatched({ canisters }: HttpHost): Promise<void> {
  const deadlineMs = Date.now() + 5_000;
  while (canisters.watchers.size > 0) {
    assert.ok(Date.now() < deadlineMs, `${canisters.watchers.size} watchers are left`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
