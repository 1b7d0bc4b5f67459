/** Bodies of answers and events, read with a bound: what sends them may be no server of ours. */
import { AnswerError, type Place } from './errors.ts';

/** Yields the pieces of a body. Throws AnswerError where they are more than `bytesMax` bytes together. */
export async function* piecesOf(response: Response, bytesMax: number, place: Place): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  let left = bytesMax;
  try {
    for (;;) {
      const { done, value } = (await reader.read()) as { done: boolean; value?: Uint8Array };
      if (done || value === undefined) return;
      left -= value.length;
      if (left < 0) {
        const { status } = response;
        const message = `the answer has more than ${bytesMax} bytes (option maxBytes)`;
        throw new AnswerError(message, { code: status, status, ...place });
      }
      yield value;
    }
  } finally {
    // Ends the connection of a body that is not wanted to its end.
    reader.cancel().catch(() => undefined);
  }
}

/** Returns a whole body. Throws AnswerError as above, and whatever the connection fails with. */
export async function bytesOf(response: Response, bytesMax: number, place: Place): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of piecesOf(response, bytesMax, place)) {
    pieces.push(piece);
    length += piece.length;
  }
  const [first] = pieces;
  if (pieces.length === 1 && first !== undefined) return first;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

interface ServerEvent {
  /** As the event says itself; empty where it says none. */
  readonly id: string;
  /** Empty: an event without a name. */
  readonly name: string;
  readonly data: string;
}

const LINE_END = /\r\n|\n|\r/;

/** Server-sent events out of pieces of text; an event that never ends has an end at `charactersMax`. */
export class EventParser {
  readonly #charactersMax: number;
  #line = '';
  #endsWithReturn = false;
  #id = '';
  #name = '';
  #data: string[] = [];
  #length = 0;

  constructor(charactersMax: number) {
    this.#charactersMax = charactersMax;
  }

  /** Yields the events that this piece completes. Throws Error at an event, or a line, that is too long. */
  *push(piece: string): Generator<ServerEvent> {
    const text = this.#endsWithReturn && piece.startsWith('\n') ? piece.slice(1) : piece;
    if (piece !== '') this.#endsWithReturn = piece.endsWith('\r');
    const lines = text.split(LINE_END);
    const last = lines.pop() ?? '';
    for (const line of lines) {
      const whole = this.#line + line;
      this.#line = '';
      if (whole !== '') this.#field(whole);
      else {
        const event = { id: this.#id, name: this.#name, data: this.#data.join('\n') };
        const isEvent = this.#data.length > 0;
        this.#id = this.#name = '';
        this.#data = [];
        this.#length = 0;
        if (isEvent) yield event;
      }
    }
    this.#line += last;
    this.#check(this.#line.length);
  }

  #field(line: string): void {
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'id') this.#id = value;
    else if (field === 'event') this.#name = value;
    else if (field === 'data') {
      this.#data.push(value);
      // An empty line takes memory, too.
      this.#length += value.length + 16;
      this.#check(0);
    }
  }

  #check(more: number): void {
    if (this.#length + more > this.#charactersMax)
      throw new Error(`an event has more than ${this.#charactersMax} characters (option maxBytes)`);
  }
}
