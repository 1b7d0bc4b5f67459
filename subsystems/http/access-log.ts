/**
 * `--access-log FILE`: one JSON line a request, when its answer has ended or its client is gone. Lines are gathered and
 * appended once a second. The file is opened by its name each time, so it can be rotated by renaming it, without a
 * signal. A disk that takes nothing stops nobody: lines are kept up to a bound, then dropped and counted.
 */
import { appendFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { type Clock, type Logger, messageOf, ServerError, tryAppending } from '../../kernel/index.ts';
import type { ClientAddresses } from './client-addresses.ts';
import type { ServedResponse } from './served-response.ts';

const FLUSH_MS = 1000;
/** Characters that wait for the disk: some seconds of all that a server can answer. */
const WAITING_CHARACTERS_MAX = 4 * 2 ** 20;
const TARGET_CHARACTERS_MAX = 500;

interface AccessLogParts {
  readonly file: string;
  readonly clients: ClientAddresses;
  readonly clock: Pick<Clock, 'nowMs' | 'every'>;
  readonly log: Logger;
}

export class AccessLog {
  readonly #parts: AccessLogParts;
  readonly #flushing: Disposable;
  #waiting: string[] = [];
  #waitingCharacters = 0;
  #dropped = 0;
  #hasFailed = false;
  /** The append under way, and nothing after it. */
  #writing: Promise<void> | undefined;

  private constructor(parts: AccessLogParts) {
    this.#parts = parts;
    this.#flushing = parts.clock.every(FLUSH_MS, () => void this.#flush());
  }

  /** Rejects with ServerError `unavailable` if nothing can be appended to the file. */
  static async open(parts: AccessLogParts): Promise<AccessLog> {
    await appendFile(parts.file, '', { mode: 0o640 }).catch((error: unknown) => {
      throw unwritable(parts.file, error);
    });
    return new AccessLog(parts);
  }

  /** Says whether the file could be opened, and changes nothing. Rejects as `open` does. */
  static async check(file: string): Promise<void> {
    await tryAppending(file).catch((error: unknown) => {
      throw unwritable(file, error);
    });
  }

  /** Writes a line when the answer has ended. */
  began(request: IncomingMessage, response: ServedResponse): void {
    // The socket does not know the address any more once it is closed.
    const client = this.#parts.clients.of(request);
    response.once('close', () => this.#ended(client, request, response));
  }

  async close(): Promise<void> {
    this.#flushing[Symbol.dispose]();
    await this.#writing;
    await this.#flush();
  }

  #ended(client: string, { method = '', url = '' }: IncomingMessage, response: ServedResponse): void {
    const nowMs = this.#parts.clock.nowMs();
    const target = url.length > TARGET_CHARACTERS_MAX ? `${url.slice(0, TARGET_CHARACTERS_MAX)}…` : url;
    const line = `${JSON.stringify({
      ts: Math.round(nowMs),
      event: 'access',
      client,
      method,
      target,
      // No answer has left if the client went first.
      status: response.headersSent ? response.statusCode : 0,
      whole: response.writableFinished,
      ms: Number((nowMs - response.startedMs).toFixed(3)),
    })}\n`;
    if (this.#waitingCharacters + line.length > WAITING_CHARACTERS_MAX) {
      this.#dropped++;
      return;
    }
    this.#waiting.push(line);
    this.#waitingCharacters += line.length;
  }

  #flush(): Promise<void> {
    this.#writing ??= this.#append().finally(() => (this.#writing = undefined));
    return this.#writing;
  }

  async #append(): Promise<void> {
    if (this.#waiting.length === 0) return;
    const lines = this.#waiting;
    const characters = this.#waitingCharacters;
    this.#waiting = [];
    const { file, log } = this.#parts;
    try {
      await appendFile(file, lines.join(''), { mode: 0o640 });
      this.#waitingCharacters -= characters;
      if (this.#hasFailed) log.warn(`--access-log: ${file} is written again; ${this.#dropped} line(s) were dropped`);
      this.#hasFailed = false;
      this.#dropped = 0;
    } catch (error) {
      // A part may have been written: the whole batch again would be lines twice and one torn.
      this.#waitingCharacters -= characters;
      this.#dropped += lines.length;
      if (!this.#hasFailed) log.warn(`--access-log: cannot write ${file}, lines are dropped: ${messageOf(error)}`);
      this.#hasFailed = true;
    }
  }
}

function unwritable(file: string, cause: unknown): ServerError {
  const text = `--access-log: cannot write ${file}: ${messageOf(cause)}`;
  return new ServerError('unavailable', 'cannot-write-access-log', text, { cause });
}
