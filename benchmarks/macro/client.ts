/** A client of requests that are sent once each, and whose answers are checked. */
import { Agent, request } from 'node:http';

interface Answer {
  readonly body: Buffer;
  /** Time from the call until the last byte. */
  readonly ms: number;
}

/** Candid's empty tuple. */
export const NO_ARGUMENTS = Buffer.from('4449444c0000', 'hex');

/** Candid's header of a single natural number; LEB128 follows. */
const NATURAL = Buffer.from('4449444c00017d', 'hex');

/** Keep-alive connections to one server. */
export class Client implements Disposable {
  readonly #origin: string;
  readonly #agent: Agent;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(origin: string, connections: number, token?: string) {
    this.#origin = origin;
    this.#headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    this.#agent = new Agent({ keepAlive: true, maxSockets: connections });
  }

  /** Sends a POST; rejects if the answer is not 2xx. */
  send(path: string, body: Uint8Array = NO_ARGUMENTS): Promise<Answer> {
    const start = performance.now();
    return new Promise((resolve, reject) => {
      const options = {
        method: 'POST',
        agent: this.#agent,
        headers: { ...this.#headers, 'content-length': body.length },
      };
      const sent = request(this.#origin + path, options, (response) => {
        const chunks: Buffer[] = [];
        response.on('error', reject);
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () => {
          const answer = { body: Buffer.concat(chunks), ms: performance.now() - start };
          const status = response.statusCode ?? 0;
          if (status >= 200 && status < 300) resolve(answer);
          else reject(new Error(`${path} answered ${status}: ${answer.body.toString()}`));
        });
      });
      sent.on('error', reject);
      sent.end(body);
    });
  }

  /** Calls a method that answers with a natural number. */
  async natural(path: string): Promise<number> {
    const { body } = await this.send(path);
    if (body.subarray(0, NATURAL.length).compare(NATURAL) !== 0) {
      throw new Error(`${path} answered no natural number: ${body.toString('hex')}`);
    }
    return body.subarray(NATURAL.length).reduce((sum, byte, at) => sum + (byte & 0x7f) * 2 ** (7 * at), 0);
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }
}

/** Calls `work` for 0 to `count` - 1, with a constant number of calls under way; rejects with its first failure. */
export async function forEachOf(
  count: number,
  underWay: number,
  work: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: Math.min(underWay, count) }, async () => {
      while (next < count) {
        try {
          await work(next++);
        } catch (error) {
          next = count;
          throw error;
        }
      }
    }),
  );
}

/** Encodes Candid's `(n : nat)`. */
export function naturalArgument(n: number): Buffer {
  const leb: number[] = [];
  for (let rest = n; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) {
      leb.push(rest);
      break;
    }
    leb.push((rest % 128) + 128);
  }
  return Buffer.concat([NATURAL, Buffer.from(leb)]);
}
