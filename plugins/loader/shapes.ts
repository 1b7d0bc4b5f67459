/**
 * Methods that an object must have to serve as a capability, because types do not exist when a plugin is loaded. The
 * compiler keeps these lists equal to the faces.
 */
import type { Auth } from '../../subsystems/auth/index.ts';
import type { Codec } from '../../subsystems/codec/index.ts';
import type { Execution } from '../../subsystems/execution/index.ts';
import type { Gateway } from '../../subsystems/gateway/index.ts';
import type { Inspector } from '../../subsystems/inspector/index.ts';
import type { Manifest } from '../../subsystems/manifest/index.ts';
import type { Metering } from '../../subsystems/metering/index.ts';
import type { Metrics } from '../../subsystems/metrics/index.ts';
import type { MopsClosures } from '../../subsystems/mops-closure/index.ts';
import type { OpenApi } from '../../subsystems/openapi/index.ts';
import type { Outcalls } from '../../subsystems/outcalls/index.ts';
import type { Scheduler, SchedulerSetup } from '../../subsystems/scheduler/index.ts';
import type { Storage } from '../../subsystems/storage/index.ts';

type Member<V> = NonNullable<V> extends (...parameters: never[]) => unknown ? 'method' : 'value';
type Shape<T> = { readonly [K in keyof T]-?: undefined extends T[K] ? 'optional' : Member<T[K]> };

interface Faces {
  readonly auth: Auth;
  readonly codec: Codec;
  readonly execution: Execution;
  readonly gateway: Gateway;
  readonly inspector: Inspector;
  readonly manifest: Manifest;
  readonly metering: Metering;
  readonly metrics: Metrics;
  readonly 'mops-closures': MopsClosures;
  readonly openapi: OpenApi;
  readonly outcalls: Outcalls;
  readonly scheduler: Scheduler;
  readonly storage: Storage;
}

const SHAPES: { readonly [N in keyof Faces]: Shape<Faces[N]> } = {
  auth: {
    needsToken: 'value',
    allows: 'method',
    grantOf: 'optional',
    prove: 'optional',
    reread: 'optional',
  },
  codec: {
    parseInterface: 'method',
    parseInterfaceAnySize: 'method',
    encodeText: 'method',
    previewText: 'method',
    untyped: 'value',
    websites: 'value',
  },
  execution: {
    supports: 'value',
    prepare: 'method',
    describe: 'method',
    complete: 'method',
    storedIs: 'method',
    keep: 'method',
    expect: 'method',
    attend: 'method',
    create: 'method',
    createAsleep: 'method',
    wake: 'method',
    rouse: 'method',
    sleep: 'method',
    remove: 'method',
    checkpoint: 'method',
    shareEnvironment: 'method',
    sharedEnvironment: 'optional',
    certifiedBy: 'optional',
    aheadOf: 'method',
    executorCount: 'value',
    executorFigures: 'method',
    executorOf: 'method',
    run: 'method',
    change: 'method',
    uninstall: 'method',
    configure: 'method',
    giveFacts: 'method',
    addCycles: 'method',
    capture: 'method',
    restore: 'method',
    executing: 'method',
    refuseNew: 'method',
    recall: 'method',
    memory: 'value',
    memoryByKind: 'method',
    attendMemory: 'method',
    holdMemory: 'method',
    trim: 'method',
  },
  gateway: {
    find: 'method',
    referenceOfHost: 'method',
    respond: 'method',
  },
  inspector: {
    page: 'method',
  },
  manifest: {
    read: 'method',
  },
  metering: {
    policy: 'value',
  },
  metrics: {
    contentType: 'value',
    requestsOf: 'method',
    show: 'method',
    page: 'method',
  },
  'mops-closures': {
    closureOf: 'method',
  },
  openapi: {
    documentOf: 'method',
    typesOf: 'method',
  },
  outcalls: {
    send: 'method',
  },
  scheduler: {
    supports: 'value',
    deliver: 'method',
    knownCall: 'optional',
    isAnswerKept: 'optional',
    live: 'value',
    queuedMax: 'value',
    idempotency: 'value',
    admit: 'method',
    withdraw: 'method',
    beginDeletion: 'method',
    restored: 'method',
    handleOf: 'method',
    stateOf: 'method',
    setMinimumCycles: 'method',
    lowMemory: 'method',
    change: 'method',
    uninstall: 'method',
    endCalls: 'method',
    lock: 'method',
    lockBetweenMessages: 'method',
    pin: 'method',
    start: 'method',
    stop: 'method',
    pause: 'method',
    resume: 'method',
  },
  storage: {
    supports: 'value',
    range: 'method',
    keys: 'method',
    get: 'method',
    values: 'method',
    canister: 'method',
    figures: 'method',
    readAhead: 'method',
    actorUnits: 'optional',
    backup: 'method',
    isKept: 'value',
    unit: 'value',
    current: 'value',
    durable: 'value',
    newest: 'value',
    expectUnit: 'method',
    markDirty: 'method',
    holdUnit: 'method',
    onSeal: 'method',
    whenDurable: 'method',
    settled: 'method',
  },
};

/**
 * Narrow capabilities of replaceable parts. A plugin that replaces such a part has their methods on the object that it
 * makes, and need not name them.
 */
const NARROW_SHAPES: { readonly 'scheduler-setup': Shape<SchedulerSetup> } = {
  'scheduler-setup': {
    attachCanisters: 'method',
    attach: 'method',
    restore: 'method',
    restoreAnswers: 'method',
    exchange: 'optional',
    moves: 'optional',
  },
};

/**
 * Capabilities that a plugin from outside may provide instead of the server's own: each has a contract suite and an
 * example.
 */
export const REPLACEABLE: readonly string[] = Object.keys(SHAPES);

const NO_SUITE = 'no contract suite says yet what another one would have to do';

/** Reasons why other capabilities of the server cannot be replaced. */
export const NOT_REPLACEABLE: Readonly<Record<string, string>> = {
  canisters: NO_SUITE,
  compatibility: NO_SUITE,
  compiler: NO_SUITE,
  management: NO_SUITE,
  http: 'routes are added by a plugin (routes: […]), and the listener is always the same',
  'hot-reload': 'the plugin does nothing without --watch, and no other plugin requires it',
};

/**
 * Returns one sentence on what `made` lacks for the capability, or for a narrow one that comes with it; undefined if it
 * lacks nothing, or if there is no list for these capabilities.
 */
export function shapeProblem(capability: string, made: unknown, narrow: readonly string[] = []): string | undefined {
  if (typeof made !== 'object' || made === null)
    return `its create returned ${made === null ? 'null' : typeof made}, not an object for '${capability}'`;
  if ('then' in made && typeof made.then === 'function')
    return 'its create returned a promise: build the object at once, and wait in start';
  const shapes: Readonly<Record<string, Readonly<Record<string, string>>>> = { ...SHAPES, ...NARROW_SHAPES };
  const members = made as Readonly<Record<string, unknown>>;
  const missing: string[] = [];
  for (const [name, kind] of [capability, ...narrow].flatMap((each) => Object.entries(shapes[each] ?? {}))) {
    if (kind === 'method' && typeof members[name] !== 'function') missing.push(`${name}()`);
    else if (kind === 'value' && !(name in made)) missing.push(name);
  }
  if (missing.length === 0) return undefined;
  return `what its create returned is no '${capability}': it lacks ${missing.join(', ')}; the face in svc/plugin says what each has to do`;
}
