/**
 * Canisters that pay each other, as an executor of the simulation runs them: what each has, and what it knows of its
 * calls. A canister checks by itself that its calls come once and in order, and each callback once.
 */
import assert from 'node:assert/strict';
import {
  CALLBACK_BYTES,
  hexOf,
  type OutgoingCall,
  type Response,
  type Step,
  type Task,
} from '../../../subsystems/ic/index.ts';
import type { ModuleInfo } from '../../../subsystems/execution/index.ts';
import { STEP } from '../../subsystems/scheduler/held-execution.ts';

const [GO, TAKE, TOUCH, NOTE] = [0, 1, 2, 3];

export const LEDGER_MODULE = {
  methods: new Map([
    ['go', 'update'],
    ['take', 'update'],
    ['touch', 'update'],
    ['note', 'update'],
  ]),
  entries: new Map([
    ['canister_update go', GO],
    ['canister_update take', TAKE],
    ['canister_update touch', TOUCH],
    ['canister_update note', NOTE],
  ]),
} as unknown as ModuleInfo;

/** Behaviours of the callee of a payment. */
export const BEHAVIOURS = ['pays', 'refuses', 'asks back', 'traps'] as const;
type Behaviour = (typeof BEHAVIOURS)[number];

/** A client's order: what a canister is to do. */
export interface Order {
  readonly callee: Uint8Array;
  readonly amount: number;
  readonly cycles: number;
  readonly behaviour: Behaviour;
  /** True: the call is no payment, and its caller does not wait for long. */
  readonly isNote: boolean;
  /** Bytes that fill up the payload. */
  readonly padding: number;
}

type DecodedOrder = Omit<Order, 'callee'> & { readonly callee: string };

interface Sent {
  readonly kind: 'take' | 'touch' | 'note';
  readonly callee: string;
  readonly amount: number;
  readonly cycles: number;
  /** The payment that a `touch` belongs to. */
  readonly of?: { readonly caller: string; readonly amount: number };
}

interface Payment {
  readonly amount: number;
  readonly number: number;
  readonly behaviour: Behaviour;
  readonly padding: string;
}

/** State of one canister. Plain data. */
export interface Ledger {
  balance: number;
  cycles: number;
  calls: number;
  readonly open: Record<number, Sent>;
  /** Numbers, by the other canister: of the last payment sent and taken, and of the last answer given and got. */
  readonly sent: Record<string, number>;
  readonly taken: Record<string, number>;
  readonly gave: Record<string, number>;
  readonly got: Record<string, number>;
  /** Number of payments that have trapped. */
  trapped: number;
  notes: number;
}

export function newLedger(): Ledger {
  return {
    balance: 1000,
    cycles: 1_000_000,
    calls: 0,
    open: {},
    sent: {},
    taken: {},
    gave: {},
    got: {},
    trapped: 0,
    notes: 0,
  };
}

const encode = (value: unknown): Uint8Array => new Uint8Array(Buffer.from(JSON.stringify(value)));
const decode = (bytes: Uint8Array): unknown => JSON.parse(Buffer.from(bytes).toString());
const next = (counts: Record<string, number>, key: string): number => (counts[key] = (counts[key] ?? 0) + 1);

export function orderOf(order: Order): Uint8Array {
  return encode({ ...order, callee: hexOf(order.callee) });
}

/** Executes a task of a canister. */
export function execute(ledger: Ledger, task: Task): Step {
  if (task.kind === 'callback') return called(ledger, task);
  assert.ok(task.kind === 'update');
  const { entry, argument, context } = task;
  if (entry === GO) return go(ledger, decode(argument) as DecodedOrder);
  if (entry === TOUCH) return replied(encode('touched'));
  if (entry === NOTE) {
    ledger.notes++;
    return replied(encode('noted'));
  }
  const caller = hexOf(context.caller);
  const payment = decode(argument) as Payment;
  const accepted = context.cyclesAvailable / 2n;
  if (payment.behaviour === 'traps') {
    // A trap leaves no effects: its number is missing, and the payment goes back.
    return { ...STEP, fault: { kind: 'calledTrap', code: 5, message: 'trapped' } };
  }
  const last = ledger.taken[caller] ?? 0;
  assert.ok(payment.number > last, `payment ${payment.number} of ${caller} has come after ${last}`);
  ledger.taken[caller] = payment.number;
  ledger.cycles += Number(accepted);
  if (payment.behaviour === 'refuses') {
    const message = String(next(ledger.gave, caller));
    return { ...STEP, cyclesAccepted: accepted, answer: { kind: 'reject', code: 4, message } };
  }
  if (payment.behaviour === 'asks back') {
    const of = { caller, amount: payment.amount };
    const call = callOf(ledger, { kind: 'touch', callee: caller, amount: 0, cycles: 0, of }, encode(''));
    return { ...STEP, cyclesAccepted: accepted, calls: [call] };
  }
  ledger.balance += payment.amount;
  return { ...replied(encode(next(ledger.gave, caller))), cyclesAccepted: accepted };
}

function replied(data: Uint8Array): Step {
  return { ...STEP, answer: { kind: 'reply', data } };
}

function go(ledger: Ledger, { callee, amount, cycles, behaviour, isNote, padding }: DecodedOrder): Step {
  if (isNote) {
    const call = callOf(ledger, { kind: 'note', callee, amount: 0, cycles: 0 }, encode('x'.repeat(padding)));
    return { ...STEP, calls: [{ ...call, timeoutSeconds: 1 }] };
  }
  ledger.balance -= amount;
  ledger.cycles -= cycles;
  const number = next(ledger.sent, callee);
  const payload = encode({ amount, number, behaviour, padding: 'x'.repeat(padding) } satisfies Payment);
  return { ...STEP, calls: [callOf(ledger, { kind: 'take', callee, amount, cycles }, payload)] };
}

function callOf(ledger: Ledger, sent: Sent, payload: Uint8Array): OutgoingCall {
  const number = ++ledger.calls;
  ledger.open[number] = sent;
  const callbacks = new Uint8Array(CALLBACK_BYTES);
  new DataView(callbacks.buffer).setUint32(0, number);
  const callee = new Uint8Array(Buffer.from(sent.callee, 'hex'));
  return { callee, method: sent.kind, payload, cycles: BigInt(sent.cycles), timeoutSeconds: undefined, callbacks };
}

function called(ledger: Ledger, { callbacks, response, refunded }: Task & { readonly kind: 'callback' }): Step {
  assert.equal(callbacks.length, CALLBACK_BYTES, 'a callback that the canister has not made');
  const number = new DataView(callbacks.buffer, callbacks.byteOffset).getUint32(0);
  const sent = ledger.open[number];
  assert.ok(sent !== undefined, `call ${number} is answered again`);
  delete ledger.open[number];
  ledger.cycles += Number(refunded);
  if (sent.kind === 'note') {
    assert.ok(response.kind === 'reply' || response.code === 6, JSON.stringify(response));
    return replied(encode('done'));
  }
  if (sent.kind === 'touch') {
    assert.equal(response.kind, 'reply');
    assert.ok(sent.of !== undefined);
    ledger.balance += sent.of.amount;
    return replied(encode(next(ledger.gave, sent.of.caller)));
  }
  if (response.kind === 'reject') ledger.balance += sent.amount;
  if (response.kind === 'reject' && response.code === 5) ledger.trapped++;
  else
    assert.equal(
      answerNumber(response),
      next(ledger.got, sent.callee),
      'answers come in the order in which they were given',
    );
  return replied(encode('done'));
}

function answerNumber(response: Response): number {
  return response.kind === 'reply' ? Number(decode(response.data)) : Number(response.message);
}
