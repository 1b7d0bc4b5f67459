/**
 * One connection on which calls to one server go, and their responses come back. Says no more than the connection
 * takes, and reads no more than the scheduler can store; ends at the first thing that is wrong.
 *
 * Main thread; touches the socket.
 */
import type { Socket } from 'node:net';
import { ServerError } from '../../../kernel/index.ts';
import type { Conversation } from '../../scheduler/index.ts';
import { type Frame, FrameReader, FrameWriter, type MoveAsk } from './frames.ts';

/** Milliseconds between two signs of life, and without one until the connection is given up. */
const PING_MS = 5_000;
const SILENCE_MS = 20_000;

export interface CallStreamOptions {
  readonly clock: { nowMs(): number };
  /** The other side begins a way: resolves with its conversation. Undefined: this side has begun it. */
  readonly begun?: ((frame: Frame & { readonly kind: 'begin' }) => Promise<Conversation>) | undefined;
  /** The other side asks about an actor that moves: resolves with why not, or with an empty text. */
  readonly asked?: ((what: MoveAsk, id: Uint8Array) => Promise<string>) | undefined;
  /** The other side has said something for the first time. */
  readonly heard?: (() => void) | undefined;
  /** Told once, with the reason; no reason: the other side has closed it. */
  readonly ended: (reason: string | undefined) => void;
}

export class CallStream {
  readonly #socket: Socket;
  readonly #options: CallStreamOptions;
  readonly #reader = new FrameReader();
  readonly #writer = new FrameWriter();
  #conversation: Conversation | undefined;
  #isBeginning = false;
  #isPumpDue = false;
  #isOver = false;
  #hasHeard = false;
  #heardMs: number;
  #saidMs: number;
  /** Who waits for what the other side tells, by the numbers of the questions. */
  readonly #asking = new Map<number, (problem: string) => void>();
  #asks = 0;

  constructor(socket: Socket, options: CallStreamOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#heardMs = this.#saidMs = options.clock.nowMs();
    socket.on('data', (piece: Buffer) => this.#heard(piece));
    socket.on('drain', () => this.#pump());
    socket.on('error', (error) => this.end(error.message));
    socket.on('close', () => this.end(undefined));
    socket.resume();
  }

  /** Begins a way from this side. */
  begin(frame: Frame & { readonly kind: 'begin' }, conversation: Conversation): void {
    this.#say(frame);
    this.#conversation = conversation;
    this.#pump();
  }

  /** The conversation has something to say, or has stored what it had taken. */
  wake(): void {
    if (this.#isPumpDue || this.#isOver) return;
    this.#isPumpDue = true;
    queueMicrotask(() => {
      this.#isPumpDue = false;
      this.#pump();
      this.#readOn();
    });
  }

  /** Asks the other side about an actor that moves. Resolves with why not, or with an empty text. */
  ask(what: MoveAsk, id: Uint8Array): Promise<string> {
    if (this.#isOver) return Promise.resolve(CUT);
    const number = ++this.#asks;
    this.#say({ kind: 'ask', number, what, id });
    return new Promise((resolve) => this.#asking.set(number, resolve));
  }

  /** Looks after the connection, now and then. */
  tick(): void {
    const nowMs = this.#options.clock.nowMs();
    if (nowMs - this.#saidMs >= PING_MS && !this.#socket.writableNeedDrain) this.#say({ kind: 'ping' });
    if (nowMs - this.#heardMs >= SILENCE_MS && !this.#socket.isPaused()) this.end('the other server is silent');
  }

  end(reason: string | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#socket.destroy();
    for (const told of this.#asking.values()) told(CUT);
    this.#options.ended(reason);
  }

  #heard(piece: Uint8Array): void {
    this.#heardMs = this.#options.clock.nowMs();
    this.#reader.add(piece);
    this.#readOn();
  }

  /** Takes what has come, as far as it can be stored. */
  #readOn(): void {
    try {
      while (!this.#isOver && !this.#isBeginning && this.#conversation?.isBusy !== true) {
        const frame = this.#reader.next();
        if (frame === undefined) {
          if (this.#socket.isPaused()) {
            this.#heardMs = this.#options.clock.nowMs();
            this.#socket.resume();
          }
          return;
        }
        this.#take(frame);
      }
      this.#socket.pause();
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      this.end(error.message);
    }
  }

  #take(frame: Frame): void {
    if (!this.#hasHeard) this.#options.heard?.();
    this.#hasHeard = true;
    if (frame.kind === 'ping') return;
    if (frame.kind === 'begin') void this.#begun(frame);
    else if (frame.kind === 'ask') void this.#asked(frame);
    else if (frame.kind === 'told') {
      this.#asking.get(frame.number)?.(frame.problem);
      this.#asking.delete(frame.number);
    } else if (this.#conversation === undefined) throw misplaced(frame);
    else this.#conversation.took(frame);
  }

  async #asked(frame: Frame & { readonly kind: 'ask' }): Promise<void> {
    const { asked } = this.#options;
    if (asked === undefined || this.#conversation === undefined) {
      this.end(misplaced(frame).message);
      return;
    }
    const problem = await asked(frame.what, frame.id);
    if (!this.#isOver) this.#say({ kind: 'told', number: frame.number, problem });
  }

  async #begun(frame: Frame & { readonly kind: 'begin' }): Promise<void> {
    const { begun } = this.#options;
    if (begun === undefined || this.#conversation !== undefined || this.#isBeginning) {
      this.end(misplaced(frame).message);
      return;
    }
    this.#isBeginning = true;
    try {
      this.#conversation = await begun(frame);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      this.end(error.message);
      return;
    }
    this.#isBeginning = false;
    // So that the other side knows that it was let in.
    this.#say({ kind: 'ping' });
    this.wake();
  }

  #pump(): void {
    if (this.#isOver) return;
    this.#socket.cork();
    while (!this.#socket.writableNeedDrain) {
      const message = this.#conversation?.next();
      if (message === undefined) break;
      this.#say(message);
    }
    this.#socket.uncork();
  }

  #say(frame: Frame): void {
    this.#saidMs = this.#options.clock.nowMs();
    this.#socket.write(this.#writer.write(frame));
  }
}

const CUT = 'the connection to the other server was cut';

function misplaced({ kind }: Frame): ServerError {
  return new ServerError('unavailable', 'link-refused', `a frame is not expected there: ${kind}`);
}
