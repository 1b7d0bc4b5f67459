/**
 * `svc/contracts/execution`: what whoever runs canisters has to pass. What instructions cost, how long a message may be and
 * how memory is shared are the implementation's own; here is what the scheduler and the management canister rely on.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { ServerError } from '../../../kernel/index.ts';
import type {
  CanisterGauges,
  CanisterSpec,
  CodeChange,
  Execution,
  ModuleInfo,
  SleepingCanister,
} from '../../../subsystems/execution/index.ts';
import { FULL_LIMIT, type ContextView, type Step, type Task } from '../../../subsystems/ic/index.ts';
import { META, metaKey } from '../../../subsystems/storage/keyspace.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { Overlay } from '../../../subsystems/storage/overlay.ts';
import { CONTRACT_CANISTER } from './support/contract-canister.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from './runner.ts';

export interface MadeExecution {
  /** With metering, and at least two canisters of a megabyte. It ends with the test. */
  readonly execution: Execution;
  /** Of a simulation: lets everything happen that can. Undefined: it happens by itself. */
  readonly turn?: () => Promise<void>;
}

const NONE = new Uint8Array(0);
const CALLER = Uint8Array.of(4);
const CALLEE = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 9, 1, 1);
const BALANCE = 1_000_000_000_000n;
const PAGE_BYTES = 65_536;
const INSTALL: CodeChange = { mode: 'install', argument: NONE, caller: CALLER };
const upgrade = (keepsHeap: boolean, argument = NONE): CodeChange => ({
  mode: 'upgrade',
  keepsHeap,
  skipsPreUpgrade: false,
  argument,
  caller: CALLER,
});

/**
 * `make` is called for each test. It may give the same one again and again, but where `isOwn` is true: that test leaves one behind
 * that takes nothing any more.
 */
export function describeExecution(
  name: string,
  make: (context: SuiteContext, isOwn: boolean) => Promise<MadeExecution>,
  runner: SuiteRunner = nodeRunner,
): void {
  suite(runner, name, (test) => {
    test('a module is known by its bytes: hash, methods, entry points, globals', async (t) => {
      const bench = await Bench.over(await make(t, false));
      const { module, execution } = bench;
      assert.equal(module.hash, createHash('sha256').update(CONTRACT_CANISTER).digest('hex'));
      assert.equal(module.pointerWidth, 32);
      assert.deepEqual([module.methods.get('inc'), module.methods.get('get')], ['update', 'query']);
      assert.deepEqual(
        ['canister_init', 'canister_update inc', 'canister_global_timer', 'canister_heartbeat'].map((entry) =>
          module.entries.has(entry),
        ),
        [true, true, true, false],
      );
      assert.deepEqual(module.globals, [{ type: 'i32', at: 0 }]);
      assert.equal(
        await bench.until(execution.prepare(CONTRACT_CANISTER.slice())),
        module,
        'the same for the same bytes',
      );
      const packed = gzipSync(CONTRACT_CANISTER);
      const unpacked = await bench.until(execution.prepare(packed));
      assert.equal(unpacked.hash, createHash('sha256').update(packed).digest('hex'), 'the hash is that of the upload');
    });

    test('what is no module is refused as invalid, and the next one is taken', async (t) => {
      const bench = await Bench.over(await make(t, false));
      const cut = CONTRACT_CANISTER.subarray(0, -1);
      for (const bytes of [NONE, Uint8Array.of(0, 0x61, 0x73, 0x6d), cut, gzipSync(cut), Buffer.from('hello')])
        await bench.fails(bench.execution.prepare(bytes), 'invalid');
      await bench.until(bench.execution.prepare(CONTRACT_CANISTER));
    });

    test('updates keep what they change, queries nothing, and each answers', async (t) => {
      const bench = await Bench.over(await make(t, false));
      const it = await bench.installed();
      assert.deepEqual(await bench.counts(it, 'inc', 'inc', 'get'), [1, 2, 2]);
      assert.equal(countOf(await bench.query(it, 'scribble')), 52, 'within the query it is there');
      assert.equal(countOf(await bench.query(it, 'get')), 2);
      assert.equal(countOf(await bench.update(it, 'get')), 2, 'a query method may be called as an update');
      const large = Buffer.alloc(50_000, 'argument ');
      // Arguments are handed over.
      const step = await bench.update(it, 'echo', new Uint8Array(large));
      assert.ok(step.answer?.kind === 'reply' && Buffer.compare(step.answer.data, large) === 0);
      assert.equal((await bench.update(it, 'silent')).answer, undefined, 'nobody has answered');
      assert.equal(countOf(await bench.query(it, 'get')), 3);
    });

    test('a message that traps leaves no trace but its charge, its instructions and what it printed', async (t) => {
      const bench = await Bench.over(await make(t, false));
      const it = await bench.installed();
      await bench.update(it, 'inc');
      const before = it.gauges();
      it.lines.length = 0;
      const step = await bench.update(it, 'fail');
      assert.deepEqual([step.fault?.kind, step.fault?.code, step.answer], ['calledTrap', 5, undefined]);
      assert.match(step.fault?.message ?? '', /said so/);
      assert.ok(step.instructions > 0 && step.charge > 0);
      assert.equal(it.lines[0], 'said');
      assert.equal(countOf(await bench.query(it, 'get')), 1);
      assert.deepEqual([it.gauges().version, it.gauges().heapBytes], [before.version, before.heapBytes]);
    });

    test('done is called once and later, after the lines and the gauges of its step', async (t) => {
      const bench = await Bench.over(await make(t, false));
      const it = await bench.installed();
      it.diary.length = 0;
      let isLater = false;
      const step = await bench.until(
        new Promise<Step>((resolve) => {
          bench.execution.run(it.handle, bench.task('update', 'print'), (done) => {
            assert.ok(isLater, 'not within run');
            it.diary.push('done');
            resolve(done);
          });
          isLater = true;
        }),
      );
      assert.equal(step.fault, undefined);
      await bench.query(it, 'get');
      assert.deepEqual(it.diary, ['debug said so', 'ended', 'done', 'ended']);
      assert.ok(it.gauges().heapBytes === PAGE_BYTES && it.gauges().stableBytes === 0);
    });

    test('tasks of one canister run in the order given, changes of code and settings among them', async (t) => {
      const bench = await Bench.over(await make(t, false));
      const it = await bench.installed();
      const other = await bench.installed(Uint8Array.of(200));
      const { execution, module } = bench;
      const steps = [
        ...Array.from({ length: 30 }, () => bench.update(it, 'inc')),
        bench.change(it, module, { ...INSTALL, mode: 'reinstall', argument: Uint8Array.of(100) }),
        bench.update(it, 'inc'),
        bench.change(it, module, upgrade(true)),
        bench.update(it, 'inc'),
      ];
      const elsewhere = bench.update(other, 'inc');
      execution.configure(it.handle, { heapBytesMax: PAGE_BYTES });
      const grown = bench.update(it, 'grow');
      const done = await bench.until(Promise.all(steps));
      const answers = done.filter(({ answer }) => answer !== undefined);
      assert.deepEqual(answers.map(countOf), [...Array.from({ length: 30 }, (_, n) => n + 1), 101, 102]);
      assert.equal(countOf(await bench.until(elsewhere)), 201, 'canisters share nothing');
      const refused = await bench.until(grown);
      assert.ok(refused.fault !== undefined, 'more heap than it may have');
      execution.configure(it.handle, { heapBytesMax: Number.POSITIVE_INFINITY });
      assert.equal(countOf(await bench.update(it, 'grow')), 102);
      assert.equal(it.gauges().heapBytes, 16 * PAGE_BYTES);
    });

    test('an installation, an upgrade with the heap, one without, a reinstallation: each keeps what it should', async (t) => {
      const bench = await Bench.over(await make(t, false));
      const it = await bench.installed(Uint8Array.of(7));
      const { module } = bench;
      assert.deepEqual(await bench.counts(it, 'inc'), [8]);
      assert.equal((await bench.change(it, module, upgrade(true))).fault, undefined);
      assert.deepEqual(await bench.counts(it, 'inc', 'grow'), [9, 9]);
      assert.equal((await bench.change(it, module, upgrade(false))).fault, undefined);
      assert.equal(it.gauges().heapBytes, PAGE_BYTES, 'a fresh heap');
      assert.deepEqual(await bench.counts(it, 'inc'), [10], 'from stable memory');
      assert.equal(it.gauges().stableBytes, PAGE_BYTES);
      assert.equal((await bench.change(it, module, { ...INSTALL, mode: 'reinstall' })).fault, undefined);
      assert.deepEqual(await bench.counts(it, 'get'), [0]);
      assert.equal(it.gauges().stableBytes, 0);
    });

    test('a change of code that traps changes nothing', async (t) => {
      const bench = await Bench.over(await make(t, false));
      const empty = bench.create();
      const argument = Uint8Array.of(255);
      const refused = await bench.change(empty, bench.module, { ...INSTALL, argument });
      assert.equal(refused.fault?.kind, 'calledTrap');
      assert.ok((await bench.update(empty, 'inc')).fault !== undefined, 'nothing was installed');
      const it = await bench.installed();
      await bench.update(it, 'inc');
      for (const change of [
        upgrade(true, argument),
        upgrade(false, argument),
        { ...INSTALL, mode: 'reinstall', argument } as const,
      ]) {
        assert.equal((await bench.change(it, bench.module, change)).fault?.kind, 'calledTrap');
        assert.equal(countOf(await bench.query(it, 'get')), 1, change.mode);
        assert.equal(it.gauges().stableBytes, 0, 'what canister_pre_upgrade did is undone');
      }
    });

    test('a call leaves with its step, paid for, and its callback goes on where it was left', async (t) => {
      const bench = await Bench.over(await make(t, false));
      const it = await bench.installed();
      const balance = it.balance();
      const step = await bench.update(it, 'call', CALLEE);
      const [call] = step.calls;
      assert.ok(call !== undefined && step.calls.length === 1 && step.answer === undefined);
      assert.deepEqual(
        [hexOf(call.callee), call.method, textOf(call.payload), call.cycles, call.timeoutSeconds],
        [hexOf(CALLEE), 'inc', 'said', 7n, undefined],
      );
      assert.equal(balance - it.balance(), 7n + BigInt(step.charge));
      const replied = await bench.run(it, {
        kind: 'callback',
        callbacks: call.callbacks,
        response: { kind: 'reply', data: NONE },
        refunded: 3n,
        context: contextOf(),
        frame: 0,
        instructionsMax: FULL_LIMIT,
      });
      assert.equal(countOf(replied), 11, 'the reply function got its environment');
      assert.equal(balance - it.balance(), 4n + BigInt(step.charge + replied.charge), 'what was refunded is back');
      const again = (await bench.update(it, 'call', CALLEE)).calls[0];
      assert.ok(again !== undefined);
      const rejected = await bench.run(it, {
        kind: 'callback',
        callbacks: again.callbacks,
        response: { kind: 'reject', code: 4, message: 'no' },
        refunded: 0n,
        context: contextOf(),
        frame: 0,
        instructionsMax: FULL_LIMIT,
      });
      assert.equal(countOf(rejected), 36, '12, and 20, and code 4');
    });

    test('cycles are accepted, added and charged, and the gauges say what is left', async (t) => {
      const bench = await Bench.over(await make(t, false));
      const it = await bench.installed();
      const before = it.balance();
      const step = await bench.run(it, bench.task('update', 'take', NONE, { cyclesAvailable: 100n }));
      assert.equal(step.cyclesAccepted, 5n);
      assert.equal(it.balance(), before + 5n - BigInt(step.charge));
      const added = await bench.until(bench.execution.addCycles(it.handle, 1000n));
      assert.equal(added, before + 1005n - BigInt(step.charge));
      assert.equal(
        (await bench.run(it, bench.task('update', 'take', NONE, { cyclesAvailable: 2n }))).cyclesAccepted,
        2n,
      );
    });

    test('timers are told, system tasks run, and a message is inspected without a change', async (t) => {
      const bench = await Bench.over(await make(t, false));
      const it = await bench.installed();
      assert.equal((await bench.update(it, 'timer')).timerNs, 1_700_000_000_000_000_000n);
      assert.equal((await bench.update(it, 'inc')).timerNs, undefined);
      const entry = bench.entry('canister_global_timer');
      assert.equal((await bench.run(it, { kind: 'system', entry })).fault, undefined);
      assert.deepEqual(await bench.counts(it, 'get'), [1001]);
      const inspected = async (argument: Uint8Array): Promise<boolean> => {
        const rest = { method: 'inc', argument, caller: CALLER };
        return (await bench.run(it, { kind: 'inspect', entry: bench.entry('canister_inspect_message'), ...rest }))
          .isAccepted;
      };
      assert.deepEqual([await inspected(Uint8Array.of(1)), await inspected(NONE)], [true, false]);
      assert.deepEqual(await bench.counts(it, 'get'), [1001]);
    });

    test('a state is captured whole, and put back over whatever is there, in another canister, too', async (t) => {
      const bench = await Bench.over(await make(t, false));
      const { execution, module } = bench;
      const it = await bench.installed(Uint8Array.of(20));
      await bench.change(it, module, upgrade(true));
      await bench.update(it, 'certify', Uint8Array.of(1, 2, 3));
      const image = await bench.until(execution.capture(it.handle, module));
      assert.deepEqual([image.heap[16], hexOf(image.globals), hexOf(image.certifiedData)], [20, '14000000', '010203']);
      assert.deepEqual([image.module, image.stablePages], [module, 1]);
      await bench.counts(it, 'inc', 'inc');
      assert.equal(image.heap[16], 20, 'it is a copy');
      await bench.until(execution.restore(it.handle, image));
      assert.deepEqual(await bench.counts(it, 'inc'), [21]);
      assert.equal(image.heap[16], 20, 'it still is');
      const other = await bench.installed(Uint8Array.of(90));
      await bench.until(execution.restore(other.handle, image));
      assert.deepEqual(await bench.counts(other, 'inc', 'inc'), [21, 22]);
      assert.deepEqual(await bench.counts(it, 'get'), [21]);
      const empty = await bench.until(execution.capture(bench.create().handle, undefined));
      assert.deepEqual([empty.module, empty.heap.length], [undefined, 0]);
    });

    test('what is uninstalled is empty, and takes new code', async (t) => {
      const bench = await Bench.over(await make(t, false));
      const it = await bench.installed(Uint8Array.of(5));
      await bench.until(bench.execution.uninstall(it.handle));
      assert.ok((await bench.update(it, 'inc')).fault !== undefined);
      assert.equal((await bench.change(it, bench.module, INSTALL)).fault, undefined);
      assert.deepEqual(await bench.counts(it, 'inc'), [1]);
      bench.execution.remove(it.handle);
      assert.deepEqual(await bench.counts(await bench.installed(), 'inc'), [1]);
    });

    test('what changed is told before its step has ended, and brings a sleeping canister back as it was', async (t) => {
      const bench = await Bench.over(await make(t, false));
      const { execution, module } = bench;
      const stored = new Overlay(new MemoryTables());
      const it = await bench.installed(Uint8Array.of(30), { snapshotBelowBytes: 1 << 30 }, stored);
      await bench.change(it, module, upgrade(true));
      await bench.update(it, 'certify', Uint8Array.of(9));
      it.diary.length = 0;
      await bench.update(it, 'inc');
      assert.deepEqual(it.diary, ['changed', 'ended']);
      it.diary.length = 0;
      await bench.query(it, 'scribble');
      await bench.update(it, 'fail');
      assert.ok(!it.diary.includes('changed') || countIn(stored) === 31, 'what was undone is not told');
      await bench.until(execution.sleep(it.handle));
      const back = await bench.until(execution.wake(it.handle, asleep(bench, it, stored)));
      assert.equal(back, undefined, 'there was no log to be run again');
      assert.deepEqual(await bench.counts(it, 'get', 'inc'), [31, 32]);
      const image = await bench.until(execution.capture(it.handle, module));
      assert.deepEqual([hexOf(image.certifiedData), image.stablePages], ['09', 1]);
      // As after a restart: nobody has seen it before.
      await bench.until(execution.sleep(it.handle));
      const handle = execution.createAsleep(it.observer, it.gauges().instantMs);
      const born = { ...it, handle };
      await bench.until(execution.wake(handle, asleep(bench, it, stored)));
      assert.deepEqual(await bench.counts(born, 'inc'), [33]);
    });

    test('a stored state that does not fit together is refused, and the others run on', async (t) => {
      const bench = await Bench.over(await make(t, false));
      const { execution } = bench;
      const stored = new Overlay(new MemoryTables());
      const it = await bench.installed(Uint8Array.of(1), { snapshotBelowBytes: 1 << 30 }, stored);
      const other = await bench.installed();
      await bench.until(execution.sleep(it.handle));
      const good = asleep(bench, it, stored);
      await bench.fails(execution.wake(it.handle, { ...good, globals: Uint8Array.of(1, 2) }), 'invalid', 'state-unfit');
      assert.deepEqual(await bench.counts(other, 'inc'), [1]);
      await bench.until(execution.wake(it.handle, asleep(bench, it, stored)));
      assert.deepEqual(await bench.counts(it, 'get'), [1]);
    });

    test('memory is counted, held and given back, and never more of it than there is', async (t) => {
      const bench = await Bench.over(await make(t, false));
      const { execution } = bench;
      await bench.installed();
      await bench.until(execution.trim());
      const { bytesMax, bytesUsed } = execution.memory;
      assert.ok(bytesUsed >= 0 && bytesUsed <= bytesMax && execution.memory.bytesHigh <= bytesMax);
      const held = 256 * PAGE_BYTES;
      const release = execution.holdMemory(held);
      // Executors may give back a little meanwhile.
      assert.ok(execution.memory.bytesUsed >= bytesUsed + held / 2);
      release();
      assert.ok(execution.memory.bytesUsed < bytesUsed + held / 2);
      assert.throws(() => execution.holdMemory(bytesMax + PAGE_BYTES), { code: 'memory-full' });
      assert.ok(Object.values(execution.memoryByKind()).every((bytes) => bytes >= 0));
    });

    test('figures say what executors did and have to do, and who is new is refused once that is asked', async (t) => {
      const bench = await Bench.over(await make(t, true));
      const { execution } = bench;
      const it = await bench.installed();
      assert.ok(execution.executorOf(it.handle) < execution.executorCount);
      await bench.update(it, 'inc');
      const { executors } = execution.executorFigures();
      assert.equal(executors.length, execution.executorCount);
      const own = executors[execution.executorOf(it.handle)];
      assert.ok(own !== undefined && own.steps >= 1 && own.instructions > 0);
      assert.deepEqual(execution.executing(), []);
      const running = bench.update(it, 'inc');
      assert.deepEqual(
        execution.executing().map(({ handle }) => handle),
        [it.handle],
      );
      await bench.until(running);
      execution.refuseNew();
      await bench.idle();
      const refused = await bench.update(it, 'inc');
      assert.equal(refused.fault?.kind, 'unavailable');
      assert.deepEqual([refused.instructions, refused.charge], [0, 0]);
    });
  });
}

interface Canister {
  readonly handle: number;
  readonly spec: CanisterSpec;
  readonly observer: Parameters<Execution['create']>[1];
  readonly lines: string[];
  /** What was told, in order. */
  readonly diary: string[];
  readonly gauges: () => CanisterGauges;
  readonly balance: () => bigint;
}

/** An implementation with the module in it. */
class Bench {
  readonly execution: Execution;
  readonly module: ModuleInfo;
  readonly #turn: (() => Promise<void>) | undefined;
  #canisters = 0;

  private constructor({ execution, turn }: MadeExecution, module: ModuleInfo) {
    this.execution = execution;
    this.module = module;
    this.#turn = turn;
  }

  static async over(made: MadeExecution): Promise<Bench> {
    return new Bench(made, await until(made.execution.prepare(CONTRACT_CANISTER), made.turn));
  }

  until<T>(promise: Promise<T>): Promise<T> {
    return until(promise, this.#turn);
  }

  /** What was asked for without an answer has come about. */
  async idle(): Promise<void> {
    await this.until(this.execution.trim());
  }

  async fails(promise: Promise<unknown>, kind: ServerError['kind'], code?: string): Promise<void> {
    await assert.rejects(
      this.until(promise),
      (error) =>
        error instanceof ServerError &&
        error.kind === kind &&
        error.message !== '' &&
        (code ?? error.code) === error.code,
    );
  }

  create(more: Partial<CanisterSpec> = {}, stored?: Overlay): Canister {
    const diary: string[] = [];
    const lines: string[] = [];
    let last: CanisterGauges | undefined;
    let balance = BALANCE;
    const spec = {
      id: Uint8Array.of(0, 0, 0, 0, 0, 0, 0, ++this.#canisters, 1, 1),
      balance,
      controllers: [CALLER],
      env: new Map<string, string>(),
      ...more,
    };
    const observer: Canister['observer'] = {
      debug: ({ text }) => {
        diary.push(`debug ${text}`);
        lines.push(text);
      },
      changed: (operations) => {
        diary.push('changed');
        stored?.apply(operations.slice());
      },
      ended: (gauges) => {
        diary.push('ended');
        last = { ...gauges };
        balance = gauges.balance ?? balance - BigInt(gauges.charge);
      },
      credited: (now) => void (balance = now),
      settled: () => Promise.resolve(),
      lost: () => diary.push('lost'),
    };
    const gauges = (): CanisterGauges => {
      assert.ok(last !== undefined, 'no step has ended');
      return last;
    };
    const handle = this.execution.create(spec, observer);
    return { handle, spec, observer, lines, diary, gauges, balance: () => balance };
  }

  async installed(argument: Uint8Array = NONE, more: Partial<CanisterSpec> = {}, stored?: Overlay): Promise<Canister> {
    const canister = this.create(more, stored);
    const step = await this.change(canister, this.module, { ...INSTALL, argument });
    assert.equal(step.fault, undefined);
    return canister;
  }

  change({ handle }: Canister, module: ModuleInfo, change: CodeChange): Promise<Step> {
    return this.#once((done) => this.execution.change(handle, module, change, done));
  }

  run({ handle }: Canister, task: Task): Promise<Step> {
    return this.#once((done) => this.execution.run(handle, task, done));
  }

  update(canister: Canister, method: string, argument: Uint8Array = NONE): Promise<Step> {
    return this.run(canister, this.task('update', method, argument));
  }

  query(canister: Canister, method: string): Promise<Step> {
    return this.run(canister, this.task('query', method));
  }

  /** What each of these answers, one after the other. */
  async counts(canister: Canister, ...methods: readonly string[]): Promise<number[]> {
    const counts: number[] = [];
    for (const method of methods) counts.push(countOf(await this.update(canister, method)));
    return counts;
  }

  task(kind: 'update' | 'query', method: string, argument: Uint8Array = NONE, more: Partial<ContextView> = {}): Task {
    const exported = this.module.methods.get(method) ?? 'update';
    const entry = this.entry(`canister_${exported} ${method}`);
    return { kind, entry, argument, context: { ...contextOf(), ...more }, instructionsMax: FULL_LIMIT };
  }

  entry(name: string): number {
    const entry = this.module.entries.get(name);
    assert.ok(entry !== undefined, name);
    return entry;
  }

  #once(give: (done: (step: Step) => void) => void): Promise<Step> {
    return this.until(new Promise(give));
  }
}

async function until<T>(promise: Promise<T>, turn: (() => Promise<void>) | undefined): Promise<T> {
  if (turn === undefined) return promise;
  let isSettled = false;
  const settle = (): void => void (isSettled = true);
  promise.then(settle, settle);
  while (!isSettled) await turn();
  return promise;
}

function contextOf(): ContextView {
  return { caller: CALLER, deadlineNs: 0n, canAnswer: true, cyclesAvailable: 0n, instructions: 0 };
}

/** As it was told to be, to be woken. */
function asleep({ module }: Bench, { spec, gauges }: Canister, stored: Overlay): SleepingCanister {
  const { version, heapBytes, stableBytes, instantMs } = gauges();
  const part = (letter: 'g' | 'd'): Uint8Array => stored.get('meta', metaKey(letter, spec.id)) ?? NONE;
  return {
    spec,
    settings: {
      controllers: spec.controllers,
      env: spec.env,
      status: 'running',
      version,
      heapBytesMax: Number.POSITIVE_INFINITY,
    },
    timerNs: 0n,
    instantMs,
    heapBytes,
    stablePages: stableBytes / PAGE_BYTES,
    module,
    memory: stored.memoryOf(spec.id),
    copy: 0,
    globals: part(META.globals),
    certifiedData: part(META.certifiedData),
    openCalls: [],
    log: undefined,
  };
}

function countIn(stored: Overlay): number {
  const [[, value] = []] = stored.range('meta', metaKey(META.globals));
  return value === undefined ? -1 : Buffer.from(value).readUInt32LE();
}

function countOf({ answer, fault }: Step): number {
  assert.ok(answer?.kind === 'reply' && answer.data.length === 4, fault?.message ?? 'no reply of four bytes');
  return Buffer.from(answer.data).readUInt32LE();
}

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8');
