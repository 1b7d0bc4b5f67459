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
import type { Outcome } from './index.ts';
import { RingConsumer, RingProducer } from './message-ring.ts';
import {
  COMMAND,
  type Command,
  EXECUTE,
  type ExecuteRecord,
  type ExecutorOptions,
  INLINE_BYTES_MAX,
  MESSAGE,
  outcomeBytes,
  type OutcomeRecord,
  type PortMessage,
  readExecute,
  writeDebug,
  writeOutcome,
} from './wire.ts';

const PUBLISH_EVERY = 16;
/** Instructions from which on a message counts as long: about a millisecond. */
const LONG_MESSAGE_INSTRUCTIONS = 2_000_000;
/** Pre-images of one message: a message that touches more of its heap than this traps. */
const JOURNAL_BYTES_MAX = 3 * 2 ** 30;
/** Written stable memory of all canisters of one thread. */
const STABLE_BYTES_MAX = 4 * 2 ** 30;
const SYS_TRANSIENT = 2;

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
/** Filled again and again. */
const record: ExecuteRecord = {
  nowMs: 0,
  call: 0,
  handle: 0,
  entry: 0,
  kind: 'update',
  caller: new Uint8Array(0),
  argument: new Uint8Array(0),
};
const ended: OutcomeRecord = {
  call: 0,
  handle: 0,
  outcome: notStarted().outcome,
  heapBytes: 0,
  stableBytes: 0,
  balance: undefined,
};
let unpublished = 0;

for (;;) {
  if (inbox.drain(take) > 0) publish();
  inbox.wait();
}

function take(type: number, at: number): void {
  if (type === EXECUTE) {
    readExecute(inbox, at, record);
    execute(record);
  } else if (type === COMMAND) {
    const command = receiveMessageOnPort(options.port)?.message as Command | undefined;
    if (command === undefined) throw new Error('the main thread announced a command and sent none');
    obey(command);
  }
}

function obey(command: Command): void {
  switch (command.kind) {
    case 'create':
      canisters[command.handle] = engine.createCanister(command.spec);
      return;
    case 'install': {
      const canister = canisterAt(command.handle);
      if (inbox.isStopping) answer(command.call, command.handle, canister, notStarted());
      else answer(command.call, command.handle, canister, engine.install(canister, command.code, command));
      return;
    }
    case 'execute':
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

function execute(message: ExecuteRecord): void {
  const canister = canisterAt(message.handle);
  const result = inbox.isStopping ? notStarted() : engine.execute(canister, message);
  answer(message.call, message.handle, canister, result);
}

function answer(call: number, handle: number, canister: CanisterState, result: EngineResult): void {
  for (const line of result.debug) sendDebug(handle, line);
  const { outcome } = result;
  ended.call = call;
  ended.handle = handle;
  ended.outcome = outcome;
  ended.heapBytes = canister.installed?.instance.heapBytes ?? 0;
  ended.stableBytes = canister.stable.bytes;
  ended.balance = result.isBalanceMoved ? canister.account.balance : undefined;
  if (outcomeBytes(outcome) > INLINE_BYTES_MAX) sendByPort({ kind: 'outcome', record: { ...ended } });
  else while (!writeOutcome(outbox, ended)) outbox.waitForRoom();
  if (++unpublished >= PUBLISH_EVERY || outcome.instructions > LONG_MESSAGE_INSTRUCTIONS) publish();
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

function notStarted(): EngineResult {
  const outcome: Outcome = {
    kind: 'unavailable',
    code: SYS_TRANSIENT,
    message: 'the server is stopping',
    instructions: 0,
    charge: 0,
  };
  return { outcome, debug: [], isBalanceMoved: false };
}
