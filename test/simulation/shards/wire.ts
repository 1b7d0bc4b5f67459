/**
 * A connection between two servers that the simulation delays, cuts and repeats. What was sent before a cut may arrive
 * long after it, or never; and mistakes can be planted, which the simulation has to find.
 */
import assert from 'node:assert/strict';
import { messageOf, ServerError } from '../../../kernel/index.ts';
import { FrameReader, FrameWriter, type Frame } from '../../../subsystems/cluster/calls/frames.ts';
import type { Conversation, LinkMessage } from '../../../subsystems/scheduler/index.ts';
import type { ShardHost } from './shard-host.ts';

export const MISTAKES = [
  'a repeat is not dropped',
  'a call is accepted before it is durable',
  'a response is forgotten before its caller has it',
  'an old way goes on',
  'a call is taken whatever its number says',
  'rows move although the new owner is not ready',
  'rows move without the fence of the new owner',
  'calls that waited are left behind',
] as const;
export type Mistake = (typeof MISTAKES)[number];

const writer = new FrameWriter();
/** Numbers added to names of repeats that are taken for calls of their own. */
const AGAIN = 1e9;

/** Facts that all wires of a world share. */
export interface Wires {
  readonly mistake: Mistake | undefined;
  /** Names of calls that have arrived. */
  readonly arrived: Set<string>;
  ways: number;
}

type Begin = Frame & { readonly kind: 'begin' };

export class Wire {
  readonly caller: ShardHost;
  readonly callee: ShardHost;
  readonly #wires: Wires;
  readonly #callers: Conversation | undefined;
  #callees: Conversation | undefined;
  /** True if the caller's end is cut: nothing more is sent, and what has been may arrive yet. */
  isCut = false;
  /** True if nothing of it arrives any more. */
  isOver = false;
  readonly #forth: Uint8Array[] = [];
  readonly #back: Uint8Array[] = [];
  /** Everything that was sent, for a connection that repeats it. */
  readonly #all: Uint8Array[] = [];

  constructor(wires: Wires, caller: ShardHost, callee: ShardHost, sent?: readonly Uint8Array[]) {
    this.#wires = wires;
    this.caller = caller;
    this.callee = callee;
    if (sent !== undefined) {
      this.isCut = true;
      this.#forth.push(...sent);
      return;
    }
    const way = { epoch: caller.epoch, number: ++wires.ways };
    this.#callers = caller.exchange.callTo(callee.shard, () => undefined);
    this.#send(this.#forth, { kind: 'begin', shard: caller.shard, way });
  }

  /** Returns a connection on which everything comes once more. */
  doubled(): Wire {
    return new Wire(this.#wires, this.caller, this.callee, this.#all);
  }

  /** Has one side say what it has to say next. Returns false if that is nothing. */
  say(isCaller: boolean): boolean {
    if (isCaller ? this.isCut || !this.caller.isAlive : this.isOver) return false;
    const message = (isCaller ? this.#callers : this.#callees)?.next();
    if (message === undefined) return false;
    this.#send(isCaller ? this.#forth : this.#back, message);
    if (message.kind === 'response' && this.#wires.mistake === 'a response is forgotten before its caller has it')
      this.#callees?.took({ kind: 'done', name: message.name });
    return true;
  }

  /** Has the next frame arrive. Returns false if there is none. */
  arrive(isCallee: boolean): boolean {
    if (this.isOver || (!isCallee && (this.isCut || !this.caller.isAlive))) return false;
    const bytes = (isCallee ? this.#forth : this.#back).shift();
    if (bytes === undefined) return false;
    const reader = new FrameReader();
    reader.add(bytes);
    const frame = reader.next();
    if (frame === undefined) throw new Error('a frame is not whole');
    try {
      if (!isCallee) this.#callers?.took(frame as LinkMessage);
      else if (frame.kind === 'begin') this.#begin(frame);
      else if (this.#callees !== undefined) this.#takeAtCallee(frame as LinkMessage, this.#callees);
    } catch (error) {
      assert.ok(!(error instanceof ServerError), `a message is refused: ${messageOf(error)}`);
      throw error;
    }
    return true;
  }

  #begin({ shard, way }: Begin): void {
    const isCareless = this.#wires.mistake === 'an old way goes on';
    const numbered = isCareless ? { epoch: 2 ** 40, number: ++this.#wires.ways } : way;
    this.#callees = this.callee.exchange.callsFrom(shard, numbered, () => undefined);
    // Refused: it is older than one that has begun.
    if (this.#callees === undefined) this.isOver = true;
  }

  #takeAtCallee(message: LinkMessage, callees: Conversation): void {
    const { mistake, arrived } = this.#wires;
    const key = `${Buffer.from(message.name.sender).toString('hex')}/${message.name.node}/${message.name.number}`;
    if (message.kind === 'call' && mistake === 'a call is accepted before it is durable')
      this.#send(this.#back, { kind: 'accepted', name: message.name });
    if (message.kind === 'call' && mistake === 'a repeat is not dropped' && arrived.has(key)) {
      const { name } = message;
      callees.took({ ...message, name: { ...name, number: name.number + AGAIN } });
      return;
    }
    arrived.add(key);
    if (message.kind === 'call' && mistake === 'a call is taken whatever its number says') {
      const places = { sender: message.places?.sender ?? 0, callee: this.callee.versionOf(message.callee) };
      callees.took({ ...message, places });
    } else callees.took(message);
  }

  #send(queue: Uint8Array[], frame: Frame): void {
    const bytes = writer.write(frame);
    queue.push(bytes);
    if (queue === this.#forth) this.#all.push(bytes);
  }
}
