import type { MessageTrace } from '../ic/index.ts';

const RADIX = 36;
/** An id of this process or of another one: two numbers in letters and digits. */
const ID = /^([0-9a-z]{1,11})-([0-9a-z]{1,11})$/u;

/** Numbers of messages, and their ids for clients. Numbers begin anew in each process; ids do not come again. */
export class MessageTraces {
  readonly #process: string;
  #last = 0;

  /** `startedMs`: start of this process, ms since 1970. */
  constructor(startedMs: number) {
    this.#process = Math.floor(startedMs).toString(RADIX);
  }

  /** Returns the place of a new message; `cause`: place of the message that sends it. */
  next(cause?: MessageTrace): MessageTrace {
    const number = ++this.#last;
    return cause === undefined ? { number, cause: 0, root: number } : { number, cause: cause.number, root: cause.root };
  }

  idOf(number: number): string {
    return `${this.#process}-${number.toString(RADIX)}`;
  }

  /** Returns the number behind an id; undefined: no message of this process has that id. */
  numberOf(id: string): number | undefined {
    const [, process, digits = ''] = ID.exec(id) ?? [];
    const number = Number.parseInt(digits, RADIX);
    return process === this.#process && number >= 1 && number <= this.#last && this.idOf(number) === id
      ? number
      : undefined;
  }
}
