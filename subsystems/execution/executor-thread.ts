/**
 * An executor thread: takes tasks from its ring, runs each on its canister, sends the steps back.
 *
 * It never returns to the event loop: it sleeps in `Atomics.wait` while there is nothing to do (after it has looked for a
 * moment, if that pays: see spin-gate.ts), and what comes by the
 * port is fetched when a marker in the ring says so. Steps are published when the ring is empty, or after PUBLISH_EVERY of
 * them, so that a burst costs the main thread one wake-up, and at once after a long message, so that an answer does not
 * wait for its neighbours' work.
 *
 * A long message does not hold up the other canisters of its thread. About once a millisecond, when a slice of its fuel is
 * used up, its code calls `svc.yield`; if something waits in the ring then, it is executed right there, on top of the
 * suspended message's stack, by an engine of its own: level 1, which has another journal and another current execution.
 * What is for the suspended canister itself is put aside until its message has ended. Levels are few, because each needs a
 * stack: with LEVELS_MAX long messages under way in one thread, the rest waits.
 *
 * A suspended message goes on when those above it have ended, not before. So a message gives way only when it has run for
 * PATIENCE_MS: otherwise one of two milliseconds could find itself below one of twenty seconds, and a few of them would use
 * up the levels. And it gives way for NESTED_MS_MAX at a time, and then runs for as long itself: others that never stop
 * coming must not keep it from its end.
 */
import { receiveMessageOnPort, workerData } from 'node:worker_threads';
import { messageOf } from '../../kernel/index.ts';
import type { CanisterState } from './canister-state.ts';
import { ControlMemory } from './control-memory.ts';
import { createStores, Engine, type EngineResult } from './engine.ts';
import { Environment } from './environment.ts';
import { HeapGarbage } from './heap-garbage.ts';
import { heapPoolLimits } from './heap-pool.ts';
import { heapsMade, type InstrumentedCode } from './instance.ts';
import { RingConsumer, RingProducer, SpinGate } from '../threads/index.ts';
import { unavailableStep } from './unavailable-step.ts';
import {
  COMMAND,
  type Command,
  type ExecutorOptions,
  INLINE_BYTES_MAX,
  LEVELS_MAX,
  MESSAGE,
  type PortMessage,
  readTask,
  stepBytes,
  TASK,
  type TaskRecord,
  writeCall,
  writeChanges,
  writeDebug,
  writeStep,
} from './wire.ts';

const PUBLISH_EVERY = 16;
/** About what a wake-up costs on each side when it crosses cores; the way through the main thread takes less. */
const SPIN_US = 30;
/** When nothing is expected: what the main thread takes from an answer to the next message, and not much more. */
const BRIEF_SPIN_US = 15;
/** How long a message runs before it lets others in: LEVELS_MAX of these are less than anybody should wait. */
const PATIENCE_MS = 20;
/** How long others are let in, at most by one message more. */
const NESTED_MS_MAX = 4;
/** Instructions from which on a message counts as long: about a millisecond. */
const LONG_MESSAGE_INSTRUCTIONS = 2_000_000;
/** Pre-images of one message: a message that touches more of its heap than this traps. */
const JOURNAL_BYTES_MAX = 3 * 2 ** 30;
/** Written stable memory of all canisters of one thread. */
const STABLE_BYTES_MAX = 4 * 2 ** 30;

const options = workerData as ExecutorOptions;
const inbox = new RingConsumer(options.inbox);
const outbox = new RingProducer(options.outbox);
const canisters: (CanisterState | undefined)[] = [];
const stores = createStores({ stableBytesMax: STABLE_BYTES_MAX, heaps: heapPoolLimits(options.executors) });
/** One for each level in use so far. */
const engines: Engine[] = [];
let level = 0;
/** Canisters whose messages have been suspended, and what waits for each until it is done. */
const aside = new Map<number, (() => void)[]>();
/** Those whose list is being worked off. */
const resuming = new Set<number>();
/** The canister whose message executes now. */
let executing: number | undefined;
/** When that message gives way next; 0: it has not yielded yet. */
let patientUntilMs = 0;
const modules = new Map<string, InstrumentedCode>();
const heapGarbage = new HeapGarbage(
  { made: heapsMade, live: countHeaps, droppedBytes: () => stores.heaps.droppedBytes },
  options.executors,
);
let unpublished = 0;
/** A step of this burst made calls. */
let isMoreExpected = false;
/** What becomes of tasks that come while the server stops. */
const NOT_STARTED: EngineResult = { step: unavailableStep('the server is stopping'), debug: [], isBalanceMoved: false };

const gate = new SpinGate();
const lookBriefly = (): boolean => inbox.spin(BRIEF_SPIN_US);

for (;;) {
  if (inbox.drain(take) > 0) publish();
  // After a call the callee's task or the callback follows soon; each one found that way is a reason to look again.
  if (isMoreExpected ? inbox.spin(SPIN_US) : gate.try(lookBriefly)) continue;
  isMoreExpected = false;
  inbox.wait();
}

function engineOf(atLevel: number): Engine {
  let engine = engines[atLevel];
  if (engine === undefined) {
    const { wasmStackBytes: stackBytes, policy } = options;
    const control = new ControlMemory({ stackBytes, journalBytesMax: JOURNAL_BYTES_MAX, onYield });
    const reportBug = (message: string, cause: unknown): void =>
      sendByPort({ kind: 'bug', message: `${message}: ${messageOf(cause)}` });
    engine = new Engine({ policy, control, shared: stores, reportBug });
    engines[atLevel] = engine;
  }
  return engine;
}

/** Called in the middle of a message: does what waits, if anything does, one level up. */
function onYield(): void {
  // Answers of the messages before this one do not wait for its end.
  if (outbox.hasUnpublished) publish();
  const nowMs = performance.now();
  if (patientUntilMs === 0) patientUntilMs = nowMs + PATIENCE_MS;
  if (nowMs < patientUntilMs) return;
  if (!inbox.hasMore || level + 1 >= LEVELS_MAX || executing === undefined) return;
  const below = executing;
  engineOf(level).suspend();
  if (!aside.has(below)) aside.set(below, []);
  level++;
  try {
    inbox.drain(take, nowMs + NESTED_MS_MAX);
    publish();
  } finally {
    level--;
    executing = below;
    const endMs = performance.now();
    patientUntilMs = endMs + Math.min(endMs - nowMs, NESTED_MS_MAX);
  }
}

function take(type: number, at: number): void {
  if (type === TASK) {
    const record = readTask(inbox, at);
    if (aside.has(record.handle)) putAside(record.handle, taskLater(record));
    else execute(record);
  } else if (type === COMMAND) {
    const command = receiveMessageOnPort(options.port)?.message as Command | undefined;
    if (command === undefined) throw new Error('the main thread announced a command and sent none');
    const handle = 'handle' in command ? command.handle : undefined;
    if (handle !== undefined && aside.has(handle)) putAside(handle, () => obey(command));
    else obey(command);
  }
  heapGarbage.check();
}

function putAside(handle: number, work: () => void): void {
  aside.get(handle)?.push(work);
}

/** The record's bytes are the ring's, and gone by then. */
function taskLater(record: TaskRecord): () => void {
  const { task } = record;
  let own = task;
  if (task.kind === 'update' || task.kind === 'query' || task.kind === 'inspect') {
    own = { ...task, argument: task.argument.slice() };
  } else if (task.kind === 'callback' && task.response.kind === 'reply') {
    own = { ...task, response: { kind: 'reply', data: task.response.data.slice() } };
  }
  return () => execute({ ...record, task: own });
}

/** Does what came for a canister while its message was suspended, in order; more may come meanwhile. */
function resume(handle: number): void {
  const waiting = aside.get(handle);
  if (waiting === undefined || resuming.has(handle)) return;
  resuming.add(handle);
  for (let work = waiting.shift(); work !== undefined; work = waiting.shift()) work();
  resuming.delete(handle);
  aside.delete(handle);
}

function obey(command: Command): void {
  switch (command.kind) {
    case 'module':
      modules.set(command.hash, command.code);
      return;
    case 'forgetModule': {
      const code = modules.get(command.hash);
      if (code !== undefined) stores.heaps.forget(code);
      modules.delete(command.hash);
      return;
    }
    case 'environment':
      stores.environment = new Environment(command.variables);
      return;
    case 'create':
      canisters[command.handle] = engineOf(level).createCanister(command.spec);
      return;
    case 'install': {
      const { handle, call, hash, change, nowMs } = command;
      run(call, handle, (engine, canister) => engine.change(canister, moduleOf(hash), change, nowMs));
      return;
    }
    case 'uninstall':
      engineOf(level).uninstall(canisterAt(command.handle));
      sendDone(command);
      return;
    case 'configure':
      engineOf(level).configure(canisterAt(command.handle), command.settings);
      sendChanges(command.handle);
      return;
    case 'capture': {
      const image = engineOf(level).capture(canisterAt(command.handle));
      sendByPort({ kind: 'image', call: command.call, image });
      return;
    }
    case 'restore': {
      const code = command.hash === undefined ? undefined : moduleOf(command.hash);
      const problem = engineOf(level).restore(canisterAt(command.handle), code, command.image);
      const { call, handle } = command;
      sendByPort({ kind: 'restored', call, handle, problem, changes: engineOf(level).takeChanges() });
      return;
    }
    case 'task':
      execute(command.record);
      return;
    case 'addCycles': {
      const balance = engineOf(level).addCycles(canisterAt(command.handle), command.amount);
      const { call, handle } = command;
      sendByPort({ kind: 'balance', call, handle, balance, changes: engineOf(level).takeChanges() });
      return;
    }
    case 'remove': {
      // One that sleeps is not here.
      const canister = canisters[command.handle];
      if (canister !== undefined) engineOf(level).removeCanister(canister);
      canisters[command.handle] = undefined;
      return;
    }
    case 'sleep': {
      const canister = canisters[command.handle];
      if (canister !== undefined) engineOf(level).putToSleep(canister);
      canisters[command.handle] = undefined;
      sendDone(command);
      return;
    }
    case 'wake':
      wake(command);
      return;
    case 'checkpoint':
      checkpoint(command);
  }
}

function checkpoint({ call, handle, isPreparing }: Extract<Command, { readonly kind: 'checkpoint' }>): void {
  const engine = engineOf(level);
  // It may have been deleted between two pieces: then there is nothing left to write.
  const canister = canisters[handle];
  let isReady = true;
  if (canister !== undefined) {
    if (isPreparing) isReady = engine.prepareCheckpoint(canister);
    else engine.checkpoint(canister);
  }
  sendByPort({ kind: 'done', call, handle, changes: engine.takeChanges(), isReady });
}

function wake({ call, handle, hash, canister: stored }: Extract<Command, { readonly kind: 'wake' }>): void {
  const engine = engineOf(level);
  const canister = engine.createCanister(stored.spec);
  let outcome: string | number;
  try {
    outcome = engine.wake(canister, hash === undefined ? undefined : moduleOf(hash), stored);
  } catch (error) {
    outcome = messageOf(error);
  }
  const isAwake = typeof outcome === 'number';
  if (isAwake) canisters[handle] = canister;
  else engine.removeCanister(canister);
  const { account, version } = canister;
  const changes = engine.takeChanges();
  sendByPort({
    kind: 'awake',
    call,
    handle,
    problem: isAwake ? undefined : String(outcome),
    replayed:
      typeof outcome === 'number' && outcome > 0 ? { records: outcome, balance: account.balance, version } : undefined,
    // Of one that could not be woken nothing is to be stored.
    changes: isAwake ? changes : undefined,
  });
}

function execute({ call, handle, task, nowMs }: TaskRecord): void {
  run(call, handle, (engine, canister) => engine.execute(canister, task, nowMs));
}

function run(call: number, handle: number, work: (engine: Engine, canister: CanisterState) => EngineResult): void {
  const canister = canisterAt(handle);
  if (inbox.isStopping) {
    answer(call, handle, canister, NOT_STARTED);
    return;
  }
  const below = executing;
  const belowUntilMs = patientUntilMs;
  executing = handle;
  patientUntilMs = 0;
  const result = work(engineOf(level), canister);
  executing = below;
  patientUntilMs = belowUntilMs;
  answer(call, handle, canister, result);
  resume(handle);
}

function answer(call: number, handle: number, canister: CanisterState, result: EngineResult): void {
  for (const line of result.debug) sendDebug(handle, line);
  const { step } = result;
  const record = {
    call,
    handle,
    step,
    heapBytes: canister.installed?.instance.heapBytes ?? 0,
    stableBytes: canister.stable.bytes,
    version: canister.version,
    balance: result.isBalanceMoved ? canister.account.balance : undefined,
    instantMs: canister.instantMs,
    loggedInstructions: canister.kept?.instructions ?? 0,
  };
  const { changes } = result;
  const isLarge =
    stepBytes(step) > INLINE_BYTES_MAX ||
    (changes !== undefined && changes.length > INLINE_BYTES_MAX) ||
    step.calls.some(({ payload }) => payload.length > INLINE_BYTES_MAX);
  if (isLarge) sendByPort({ kind: 'step', record, changes });
  else {
    if (step.calls.length > 0) isMoreExpected = true;
    if (changes !== undefined) while (!writeChanges(outbox, changes)) outbox.waitForRoom();
    for (const outgoing of step.calls) while (!writeCall(outbox, outgoing)) outbox.waitForRoom();
    while (!writeStep(outbox, record)) outbox.waitForRoom();
  }
  if (++unpublished >= PUBLISH_EVERY || step.instructions > LONG_MESSAGE_INSTRUCTIONS) publish();
}

/** A command is done, and has changed this. */
function sendDone({ call, handle }: { readonly call: number; readonly handle: number }): void {
  sendByPort({ kind: 'done', call, handle, changes: engineOf(level).takeChanges(), isReady: true });
}

/** What a command has changed, for storage. */
function sendChanges(handle: number): void {
  const changes = engineOf(level).takeChanges();
  if (changes !== undefined) sendByPort({ kind: 'changes', handle, changes });
}

function sendDebug(handle: number, text: string): void {
  const bytes = Buffer.from(text);
  if (bytes.length > INLINE_BYTES_MAX) sendByPort({ kind: 'debug', handle, text });
  else while (!writeDebug(outbox, handle, bytes)) outbox.waitForRoom();
}

/** The marker first: the port's message must not be there before its turn, but may be posted before it is published. */
function sendByPort(message: PortMessage): void {
  while (outbox.reserve(MESSAGE, 0) < 0) outbox.waitForRoom();
  const changes = 'changes' in message ? message.changes : undefined;
  options.port.postMessage(message, changes === undefined ? [] : [changes.buffer as ArrayBuffer]);
}

function publish(): void {
  unpublished = 0;
  outbox.publish();
}

function countHeaps(): number {
  const inUse = canisters.reduce((count, canister) => count + (canister?.installed === undefined ? 0 : 1), 0);
  return inUse + stores.heaps.count;
}

function canisterAt(handle: number): CanisterState {
  const canister = canisters[handle];
  if (canister === undefined) throw new Error(`no canister ${handle} in this executor`);
  return canister;
}

function moduleOf(hash: string): InstrumentedCode {
  const code = modules.get(hash);
  if (code === undefined) throw new Error(`no module ${hash} in this executor`);
  return code;
}
