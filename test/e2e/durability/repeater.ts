/**
 * Clients that give every call a key, and repeat all calls whenever the server was gone: each call must have been
 * executed once.
 */
import assert from 'node:assert/strict';
import { type Answer, send } from '../../support/http-client.ts';
import type { Actor, Host } from '../semantics/host.ts';
import { Client, type Request } from './client.ts';

/**
 * First number of these clients: no other client of the load has such numbers, so a printed number tells its sender.
 */
const NUMBERS_FROM = 1e12;

interface KeyedCall {
  readonly key: string;
  readonly body: string;
  /** Answer that the client got; undefined: none yet. */
  answer: string | undefined;
}

class Repeater extends Client {
  readonly #method: string;
  readonly #argumentsOf: (number: number) => readonly unknown[];
  /** Calls since the last time that all were repeated. */
  #calls: KeyedCall[] = [];
  /** Number of all calls made. */
  made = 0;
  /** Number of repeats that were answered; then those whose first answer nobody had seen. */
  repeated = 0;
  recovered = 0;

  constructor(actor: Actor, method: string, argumentsOf: (number: number) => readonly unknown[]) {
    super(actor);
    this.#method = method;
    this.#argumentsOf = argumentsOf;
  }

  get #target(): string {
    return `/call-json/${this.actor.name}/${this.#method}`;
  }

  protected next(): Request {
    const number = ++this.made;
    const key = `${this.#method}-${number}`;
    const call = { key, body: JSON.stringify(this.#argumentsOf(number)), answer: undefined };
    this.#calls.push(call);
    return { target: this.#target, body: call.body, headers: { 'idempotency-key': key } };
  }

  protected override isDone(answer: Answer): boolean {
    const call = this.#calls.at(-1);
    assert.ok(call !== undefined && super.isDone(answer));
    call.answer = answer.text;
    return true;
  }

  /** Repeats every call since the last time; calls without an answer are repeated until they have one. */
  async repeatAll({ server }: Host): Promise<void> {
    for (const call of this.#calls) {
      const headers = { 'idempotency-key': call.key };
      const answer = await send(server.origin, 'POST', this.#target, { body: call.body, headers });
      assert.equal(answer.status, 200, `${this.actor.name}, ${call.key}: ${answer.text}`);
      this.repeated++;
      if (call.answer === undefined) this.recovered++;
      else assert.equal(answer.text, call.answer, `${this.actor.name}, ${call.key}: another answer than before`);
    }
    this.#calls = [];
    this.isUncertain = false;
  }
}

/** Calls of an actor alone, and calls that await another actor. */
export class Repeaters {
  readonly #list: Actor;
  readonly #from: Actor;
  readonly #to: Actor;
  static readonly LINKS = 5;
  readonly clients: readonly [Repeater, Repeater];

  constructor([list, from, to]: readonly [list: Actor, from: Actor, to: Actor]) {
    this.#list = list;
    this.#from = from;
    this.#to = to;
    this.clients = [
      new Repeater(list, 'append', (number) => [NUMBERS_FROM + number]),
      new Repeater(from, 'chain', () => [to.principal, Repeaters.LINKS]),
    ];
  }

  async check(host: Host): Promise<void> {
    for (const client of this.clients) await client.repeatAll(host);
    const [appender, chainer] = this.clients;
    const numbers = (await host.query(this.#list, 'all')) as number[];
    const expected = Array.from({ length: appender.made }, (_, at) => NUMBERS_FROM + at + 1);
    assert.deepEqual(numbers, expected, 'each number was appended once, in order');
    const { steps, chains } = (await host.query(this.#from, 'chained')) as { steps: number; chains: number };
    const links = chainer.made * Repeaters.LINKS;
    assert.deepEqual({ steps, chains }, { steps: links, chains: chainer.made }, 'each chain ran once');
    assert.equal(await host.query(this.#to, 'get'), links);
  }
}
