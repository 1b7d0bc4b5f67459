/**
 * An executor thread: takes messages from its ring, runs each on its canister, sends the outcomes back.
 *
 * It never returns to the event loop: it sleeps in `Atomics.wait` while there is nothing to do, and what comes by the
 * port is fetched when a marker in the ring says so. Outcomes are published when the ring is empty, or after
 * PUBLISH_EVERY of them, so that a burst costs the main thread one wake-up, and at once after a long message, so that
 * an answer does not wait for its neighbours' work.
 */
import { receiveMessageOnPort, workerData } from 'node:worker_threads';
import { messageOf } from '../../kernel/index.ts';
import type { CanisterState } from './canister-state.ts';
import { ControlMemory } from './control-memory.ts';
import { Engine, type EngineResult } from './engine.ts';
import type { InstrumentedCode } from './instance.ts';
import { RingConsumer, RingProducer } from './message-ring.ts';
import { unavailableStep } from './unavailable-step.ts';
import {
  COMMAND,
  type Command,
  type ExecutorOptions,
  INLINE_BYTES_MAX,
  MESSAGE,
  type PortMessage,
  readTask,
  stepBytes,
  TASK,
  type TaskRecord,
  writeCall,
  writeDebug,
  writeStep,
} from './wire.ts';

const PUBLISH_EVERY = 16;
/** About what a wake-up costs on each side when it crosses cores; the way through the main thread takes less. */
const SPIN_US = 30;
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
const engine = new Engine({
  policy: options.policy,
  control: new ControlMemory({ stackBytes: options.wasmStackBytes, journalBytesMax: JOURNAL_BYTES_MAX }),
  stableBytesMax: STABLE_BYTES_MAX,
  reportBug: (message, cause) => sendByPort({ kind: 'bug', message: `${message}: ${messageOf(cause)}` }),
});
const modules = new Map<string, InstrumentedCode>();
let unpublished = 0;
/** A step of this burst made calls. */
let isMoreExpected = false;
/** What becomes of tasks that come while the server stops. */
const NOT_STARTED: EngineResult = { step: unavailableStep('the server is stopping'), debug: [], isBalanceMoved: false };

for (;;) {
  if (inbox.drain(take) > 0) publish();
  // After a call the callee's task or the callback follows soon; each one found that way is a reason to look again.
  if (isMoreExpected && inbox.spin(SPIN_US)) continue;
  isMoreExpected = false;
  inbox.wait();
}

function take(type: number, at: number): void {
  if (type === TASK) execute(readTask(inbox, at));
  else if (type === COMMAND) {
    const command = receiveMessageOnPort(options.port)?.message as Command | undefined;
    if (command === undefined) throw new Error('the main thread announced a command and sent none');
    obey(command);
  }
}

function obey(command: Command): void {
  switch (command.kind) {
    case 'module':
      modules.set(command.hash, command.code);
      return;
    case 'forgetModule':
      modules.delete(command.hash);
      return;
    case 'create':
      canisters[command.handle] = engine.createCanister(command.spec);
      return;
    case 'install': {
      const canister = canisterAt(command.handle);
      const result = inbox.isStopping
        ? NOT_STARTED
        : engine.change(canister, moduleOf(command.hash), command.change, command.nowMs);
      answer(command.call, command.handle, canister, result);
      return;
    }
    case 'uninstall':
      engine.uninstall(canisterAt(command.handle));
      return;
    case 'configure':
      engine.configure(canisterAt(command.handle), command.settings);
      return;
    case 'capture':
      sendByPort({ kind: 'image', call: command.call, image: engine.capture(canisterAt(command.handle)) });
      return;
    case 'restore': {
      const code = command.hash === undefined ? undefined : moduleOf(command.hash);
      const problem = engine.restore(canisterAt(command.handle), code, command.image);
      sendByPort({ kind: 'restored', call: command.call, problem });
      return;
    }
    case 'task':
      execute(command.record);
      return;
    case 'addCycles': {
      const { account } = canisterAt(command.handle);
      account.add(command.amount);
      sendByPort({ kind: 'balance', call: command.call, balance: account.balance });
      return;
    }
    case 'remove':
      engine.removeCanister(canisterAt(command.handle));
      canisters[command.handle] = undefined;
  }
}

function execute({ call, handle, task, nowMs }: TaskRecord): void {
  const canister = canisterAt(handle);
  answer(call, handle, canister, inbox.isStopping ? NOT_STARTED : engine.execute(canister, task, nowMs));
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
  };
  const isLarge =
    stepBytes(step) > INLINE_BYTES_MAX || step.calls.some(({ payload }) => payload.length > INLINE_BYTES_MAX);
  if (isLarge) sendByPort({ kind: 'step', record });
  else {
    if (step.calls.length > 0) isMoreExpected = true;
    for (const outgoing of step.calls) while (!writeCall(outbox, outgoing)) outbox.waitForRoom();
    while (!writeStep(outbox, record)) outbox.waitForRoom();
  }
  if (++unpublished >= PUBLISH_EVERY || step.instructions > LONG_MESSAGE_INSTRUCTIONS) publish();
}

function sendDebug(handle: number, text: string): void {
  const bytes = Buffer.from(text);
  if (bytes.length > INLINE_BYTES_MAX) sendByPort({ kind: 'debug', handle, text });
  else while (!writeDebug(outbox, handle, bytes)) outbox.waitForRoom();
}

/** The marker first: the port's message must not be there before its turn, but may be posted before it is published. */
function sendByPort(message: PortMessage): void {
  while (outbox.reserve(MESSAGE, 0) < 0) outbox.waitForRoom();
  options.port.postMessage(message);
}

function publish(): void {
  unpublished = 0;
  outbox.publish();
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
