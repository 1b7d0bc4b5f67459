/** Server-sent events, read from a stream of text. `EventSource` cannot send the token. */
export interface StreamEvent {
  /** The last id that was seen. */
  readonly id: string;
  readonly type: string;
  readonly data: string;
}

/** Characters of one unfinished event: a page of actors whose interfaces are very long has less. */
const PENDING_CHARACTERS_MAX = 64 * 1024 * 1024;
/** Characters of the longest end of an event. */
const END_CHARACTERS_MAX = 4;

export class EventStream {
  #pending = '';
  #id = '';

  /** Yields the events that this piece completes. */
  *push(piece: string): Generator<StreamEvent> {
    // The end may have come in two pieces; what is before has none.
    let from = Math.max(0, this.#pending.length - END_CHARACTERS_MAX + 1);
    this.#pending += piece;
    if (this.#pending.length > PENDING_CHARACTERS_MAX) throw new Error('the stream holds an event without an end');
    for (;;) {
      const end = endFrom(this.#pending, from);
      if (end === null) return;
      from = 0;
      const block = this.#pending.slice(0, end.index);
      this.#pending = this.#pending.slice(end.index + end[0].length);
      const event = this.#parse(block);
      if (event !== undefined) yield event;
    }
  }

  /** Returns undefined for a block without data: a comment that keeps the connection alive. */
  #parse(block: string): StreamEvent | undefined {
    const data: string[] = [];
    let type = 'message';
    for (const line of block.split(/\r\n|\n|\r/)) {
      const [, name = '', value = ''] = /^([^:]*)(?::\x20?([^]*))?$/.exec(line) ?? [];
      if (name === 'data') data.push(value);
      else if (name === 'event') type = value;
      else if (name === 'id') this.#id = value;
    }
    return data.length === 0 ? undefined : { id: this.#id, type, data: data.join('\n') };
  }
}

function endFrom(text: string, from: number): RegExpExecArray | null {
  const end = /\r\n\r\n|\n\n|\r\r/g;
  end.lastIndex = from;
  return end.exec(text);
}
