/** Server-sent events, read from a stream of text. `EventSource` cannot send the token. */
export interface StreamEvent {
  /** The last id that was seen. */
  readonly id: string;
  readonly type: string;
  readonly data: string;
}

/** Characters of one unfinished event; the server's lines are far shorter. */
const PENDING_CHARACTERS_MAX = 8 * 1024 * 1024;

export class EventStream {
  #pending = '';
  #id = '';

  /** Yields the events that this piece completes. */
  *push(piece: string): Generator<StreamEvent> {
    this.#pending += piece;
    if (this.#pending.length > PENDING_CHARACTERS_MAX) throw new Error('the stream holds an event without an end');
    for (;;) {
      const end = /\r\n\r\n|\n\n|\r\r/.exec(this.#pending);
      if (end === null) return;
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
