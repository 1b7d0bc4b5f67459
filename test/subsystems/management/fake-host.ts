/** A host of canisters without running code: all requests of the management canister work, in one Map. */
import { createHash } from 'node:crypto';
import { ServerError } from '../../../kernel/index.ts';
import {
  principalToText,
  type Outcome,
  type StepFault,
  type CanisterStatus,
  type LowMemoryHook,
} from '../../../subsystems/ic/index.ts';
import type { CanisterImage, CodeChange, ModuleInfo } from '../../../subsystems/execution/index.ts';
import type {
  ManagementBackend,
  CanisterLogRecord,
  EndedOutcall,
  EnforcedSettings,
  GlobalValue,
  HostedCanister,
  HostedCode,
  ManagementHooks,
  NewCanister,
  RestoredState,
} from '../../../subsystems/management/index.ts';
import { ChangeTurns } from '../../../subsystems/canisters/change-turns.ts';
import { decodeModule } from '../../../subsystems/wasm/index.ts';

const PAGE_BYTES = 65_536;
const FIRST_NUMBER = 0x8000_0000_0010_0001n;
export const STARTING_CYCLES = 1_000_000n;

type ValueTypes = ModuleInfo['globals'][number]['type'];
const GLOBAL_BYTES: Readonly<Record<ValueTypes, number>> = { i32: 4, f32: 4, i64: 8, f64: 8, v128: 16 };

export function idOf(number: bigint): Uint8Array {
  const id = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 1, 1);
  new DataView(id.buffer).setBigUint64(0, number);
  return id;
}

/** Makes a module that has only custom sections. */
export function moduleOf(sections: Readonly<Record<string, string>>): Uint8Array {
  const parts: Uint8Array[] = [Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0)];
  for (const [name, content] of Object.entries(sections)) {
    const body = Buffer.concat([lengthPrefixed(Buffer.from(name)), Buffer.from(content)]);
    parts.push(Uint8Array.of(0), lengthPrefixed(body));
  }
  return Buffer.concat(parts);
}

function lengthPrefixed(bytes: Uint8Array): Uint8Array {
  const leb: number[] = [];
  let rest = bytes.length;
  for (; rest >= 128; rest >>>= 7) leb.push((rest & 127) | 128);
  leb.push(rest);
  return Buffer.concat([Uint8Array.from(leb), bytes]);
}

export class FakeCanister implements HostedCanister {
  readonly id: Uint8Array;
  readonly name: string;
  status: CanisterStatus = 'running';
  damage: string | undefined = undefined;
  version = 0;
  controllers: readonly Uint8Array[];
  environment: ReadonlyMap<string, string> = new Map();
  code: HostedCode | undefined = undefined;
  balance: bigint;
  heap = new Uint8Array(0);
  stable = new Map<number, Uint8Array>();
  stablePages = 0;
  globals = new Uint8Array(0);
  certifiedData = new Uint8Array(0);
  timerNs = 0n;
  lowMemoryHook: LowMemoryHook = 'condition_not_satisfied';
  historyEntries = 0;
  logs: CanisterLogRecord[] = [];
  settings: EnforcedSettings = {};
  /** A canister with open calls does not stop. */
  hasOpenCalls = false;
  lastChange: CodeChange | undefined;
  stopWaiters: ((outcome: 'stopped' | 'started' | 'removed') => void)[] = [];
  usage = {
    cyclesCharged: 11n,
    cyclesBurned: 7n,
    queryCalls: 1,
    queryInstructions: 2,
    queryRequestBytes: 3,
    queryResponseBytes: 4,
  };

  get storedStatus(): CanisterStatus {
    return this.status;
  }

  constructor(id: Uint8Array, balance: bigint, controllers: readonly Uint8Array[]) {
    this.id = id;
    this.name = Buffer.from(id).toString('hex');
    this.balance = balance;
    this.controllers = controllers;
  }

  get heapBytes(): number {
    return this.heap.length;
  }
  get stableBytes(): number {
    return this.stablePages * PAGE_BYTES;
  }
}

export class FakeHost implements ManagementBackend {
  /** Last image that was restored into a canister. */
  restored: CanisterImage | undefined;
  management: ManagementHooks | undefined;
  readonly #canisters = new Map<string, FakeCanister>();
  readonly #usedIds = new Set<string>();
  readonly #turns = new ChangeTurns();
  #nextNumber = FIRST_NUMBER;
  /** Awaited in the middle of a code change, so that tests can look at the state then. */
  duringChange: () => Promise<void> = () => Promise.resolve();
  changesUnderWay = 0;
  /** Outcome of the transforms of its canisters. */
  onTransform: (canister: FakeCanister, method: string, argument: Uint8Array) => Outcome | Promise<Outcome> = () => ({
    kind: 'trap',
    code: 5,
    message: 'there is no transform',
    instructions: 0,
    charge: 0,
  });
  readonly endedOutcalls: (EndedOutcall & { readonly outcome: Outcome })[] = [];

  attach(management: ManagementHooks): void {
    this.management = management;
    // A new process knows nothing before the state is restored.
    for (const canister of this.#canisters.values()) canister.historyEntries = 0;
  }

  find(id: Uint8Array): FakeCanister | undefined {
    return this.#canisters.get(principalToText(id));
  }

  list(): readonly FakeCanister[] {
    return [...this.#canisters.values()].toSorted((a, b) => Buffer.compare(a.id, b.id));
  }

  create({ id: wanted, balance, settings }: NewCanister): FakeCanister {
    const id = wanted ?? idOf(this.#nextNumber++);
    const key = principalToText(id);
    if (this.#usedIds.has(key)) throw new ServerError('invalid', 'actor-exists', `${key} was used before`);
    this.#usedIds.add(key);
    const canister = new FakeCanister(id, balance ?? STARTING_CYCLES, settings.controllers);
    this.#canisters.set(key, canister);
    this.configure(canister, settings);
    canister.version = 0;
    return canister;
  }

  configure(hosted: HostedCanister, settings: EnforcedSettings): void {
    const canister = this.#own(hosted);
    canister.settings = { ...canister.settings, ...settings };
    canister.controllers = settings.controllers ?? canister.controllers;
    canister.environment = settings.environment ?? canister.environment;
    canister.version++;
  }

  inTurn<T>(hosted: HostedCanister, change: () => Promise<T>): Promise<T> {
    return this.#turns.take(hosted, change);
  }

  async prepare(wasm: Uint8Array): Promise<ModuleInfo> {
    const { customSections } = decodeModule(wasm);
    const metadata = new Map<string, { isPublic: boolean; content: Uint8Array }>();
    for (const { name, content } of customSections) {
      const [, visibility, rest] = /^icp:(public|private) (.*)$/s.exec(name) ?? [];
      if (rest !== undefined) metadata.set(rest, { isPublic: visibility === 'public', content: content.slice() });
    }
    const types = Buffer.from(metadata.get('globals')?.content ?? '')
      .toString()
      .split(',');
    let at = 0;
    const globals = types
      .filter((type): type is ValueTypes => type in GLOBAL_BYTES)
      .map((type) => ({ type, at: (at += GLOBAL_BYTES[type]) - GLOBAL_BYTES[type] }));
    return {
      hash: createHash('sha256').update(wasm).digest('hex'),
      pointerWidth: metadata.has('wide') ? 64 : 32,
      methods: new Map(),
      entries: new Map(),
      globals,
      globalsBytes: at,
      metadata,
      candid: undefined,
      candidArgs: undefined,
    };
  }

  async change(hosted: HostedCanister, code: HostedCode, change: CodeChange): Promise<StepFault | undefined> {
    const canister = this.#own(hosted);
    this.changesUnderWay++;
    await this.duringChange();
    this.changesUnderWay--;
    if (code.module.metadata.has('traps'))
      return { kind: 'trap', code: 5, message: 'IC0502: canister_init trapped: unreachable' };
    canister.lastChange = change;
    if (change.mode !== 'upgrade') canister.stable = new Map();
    if (change.mode !== 'upgrade' || !change.keepsHeap) {
      canister.heap = new Uint8Array(PAGE_BYTES);
      canister.heap.set(change.argument);
    }
    canister.globals = new Uint8Array(code.module.globalsBytes);
    canister.code = code;
    canister.timerNs = 0n;
    canister.version++;
    return undefined;
  }

  async uninstall(hosted: HostedCanister): Promise<void> {
    const canister = this.#own(hosted);
    canister.code = undefined;
    canister.heap = new Uint8Array(0);
    canister.stable = new Map();
    canister.stablePages = 0;
    canister.logs = [];
    canister.version++;
  }

  async start(hosted: HostedCanister): Promise<void> {
    const canister = this.#own(hosted);
    canister.status = 'running';
    canister.version++;
    for (const settle of canister.stopWaiters.splice(0)) settle('started');
  }

  stop(hosted: HostedCanister): Promise<'stopped' | 'started' | 'removed'> {
    const canister = this.#own(hosted);
    if (canister.status === 'stopped') return Promise.resolve('stopped');
    canister.status = 'stopping';
    canister.version++;
    const { promise, resolve } = Promise.withResolvers<'stopped' | 'started' | 'removed'>();
    canister.stopWaiters.push(resolve);
    if (!canister.hasOpenCalls) this.closeCalls(canister);
    return promise;
  }

  /** Ends the last open call of a stopping canister. */
  closeCalls(canister: FakeCanister): void {
    canister.hasOpenCalls = false;
    canister.status = 'stopped';
    canister.version++;
    for (const settle of canister.stopWaiters.splice(0)) settle('stopped');
  }

  async remove(hosted: HostedCanister): Promise<void> {
    const canister = this.#own(hosted);
    this.#canisters.delete(principalToText(canister.id));
    for (const settle of canister.stopWaiters.splice(0)) settle('removed');
    this.management?.forget(canister);
  }

  async addCycles(hosted: HostedCanister, amount: bigint): Promise<bigint> {
    const canister = this.#own(hosted);
    canister.balance += amount;
    return canister.balance;
  }

  async capture(hosted: HostedCanister): Promise<CanisterImage> {
    const canister = this.#own(hosted);
    return {
      module: canister.code?.module,
      heap: canister.heap.slice(),
      globals: canister.globals.slice(),
      // Entries are out of order, as a hash table would give them.
      stable: [...canister.stable].toReversed().map(([offset, bytes]) => ({ offset, bytes: bytes.slice() })),
      stablePages: canister.stablePages,
      certifiedData: canister.certifiedData.slice(),
    };
  }

  async restore(hosted: HostedCanister, { image, wasm, timerNs, lowMemoryHook }: RestoredState): Promise<void> {
    const canister = this.#own(hosted);
    this.restored = image;
    canister.code = image.module === undefined || wasm === undefined ? undefined : { module: image.module, wasm };
    canister.heap = image.heap.slice();
    canister.globals = image.globals.slice();
    canister.stable = new Map(image.stable.map(({ offset, bytes }) => [offset, bytes.slice()]));
    canister.stablePages = image.stablePages;
    canister.certifiedData = image.certifiedData.slice();
    canister.timerNs = timerNs ?? canister.timerNs;
    canister.lowMemoryHook = lowMemoryHook ?? canister.lowMemoryHook;
    canister.version++;
  }

  readGlobals({ module, globals }: CanisterImage): readonly GlobalValue[] {
    return (module?.globals ?? []).map(({ type, at }) => {
      const bytes = globals.slice(at, at + GLOBAL_BYTES[type]).toReversed();
      return { type, bits: BigInt(`0x${Buffer.from(bytes).toString('hex')}`) };
    });
  }

  writeGlobals(module: ModuleInfo, values: readonly GlobalValue[]): Uint8Array {
    const types = module.globals.map(({ type }) => type).join();
    const given = values.map(({ type }) => type).join();
    if (types !== given)
      throw new ServerError('invalid', 'globals-differ', `the module's globals are [${types}], not [${given}]`);
    const bytes = new Uint8Array(module.globalsBytes);
    for (const [index, { type, at }] of module.globals.entries()) {
      const digits = (values[index]?.bits ?? 0n).toString(16).padStart(2 * GLOBAL_BYTES[type], '0');
      bytes.set(Buffer.from(digits, 'hex').toReversed(), at);
    }
    return bytes;
  }

  async transform(hosted: HostedCanister, method: string, argument: Uint8Array): Promise<Outcome> {
    return await this.onTransform(this.#own(hosted), method, argument);
  }

  outcallEnded(_hosted: HostedCanister, outcall: EndedOutcall, outcome: Outcome): void {
    this.endedOutcalls.push({ ...outcall, outcome });
  }

  logs(hosted: HostedCanister): readonly CanisterLogRecord[] {
    return this.#own(hosted).logs;
  }

  #own(hosted: HostedCanister): FakeCanister {
    const canister = this.find(hosted.id);
    if (canister !== hosted || canister === undefined) throw new Error('the canister is not here any more');
    return canister;
  }
}
