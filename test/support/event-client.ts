import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';

/** Milliseconds after which a test that waits for an event has failed, instead of going on for ever. */
const DEADLINE_MS = 120_000;

interface ReceivedEvent {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: string;
}

/** A client of server-sent events that reads as slowly as it is told to. */
export class EventClient implements AsyncDisposable {
  readonly response: IncomingMessage;
  readonly #received: ReceivedEvent[] = [];
  #text = '';
  #waiting: (() => void) | undefined;
  isClosed = false;
  /** Number of received comments (keep-alives). */
  comments = 0;

  /** Opens a stream; if the answer is no stream, rejects with its status and text. */
  static async open(
    origin: string,
    target: string,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<EventClient> {
    const { hostname, port } = new URL(origin);
    const asked = request({ host: hostname, port, path: target, headers, agent: false });
    asked.end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    if (response.statusCode === 200) return new EventClient(response);
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    throw new Error(`${response.statusCode ?? 0} ${Buffer.concat(chunks).toString('utf8')}`);
  }

  private constructor(response: IncomingMessage) {
    this.response = response;
    response.setEncoding('utf8').on('data', (text: string) => this.#take(text));
    response.once('close', () => {
      this.isClosed = true;
      this.#waiting?.();
    });
    response.on('error', () => undefined);
  }

  /** Returns the next event; undefined when the stream has ended. Rejects if neither happens in two minutes. */
  async next(): Promise<ReceivedEvent | undefined> {
    while (this.#received.length === 0) {
      if (this.isClosed) return undefined;
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      this.#waiting = resolve;
      const late = setTimeout(() => reject(new Error(`no event, and no end, within ${DEADLINE_MS} ms`)), DEADLINE_MS);
      await promise.finally(() => clearTimeout(late));
    }
    return this.#received.shift();
  }

  /** Received events that were not taken by `next` yet. */
  get unread(): readonly ReceivedEvent[] {
    return this.#received;
  }

  close(): void {
    this.response.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.isClosed) return;
    const closed = once(this.response, 'close');
    this.close();
    await closed;
  }

  #take(text: string): void {
    const blocks = (this.#text + text).split('\n\n');
    this.#text = blocks.pop() ?? '';
    for (const block of blocks) {
      const fields = block.split('\n').map((line) => /^([^:]*): ?(.*)$/s.exec(line) ?? [line, line, '']);
      const valueOf = (name: string): string | undefined => fields.findLast((field) => field[1] === name)?.[2];
      const data = fields.filter((field) => field[1] === 'data').map((field) => field[2] ?? '');
      if (data.length === 0) this.comments++;
      else this.#received.push({ id: valueOf('id'), event: valueOf('event'), data: data.join('\n') });
    }
    this.#waiting?.();
  }
}
