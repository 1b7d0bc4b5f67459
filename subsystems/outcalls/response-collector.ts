/**
 * Collects one response as it arrives, up to its limits. Undici decompresses nothing here (only its `fetch` does), so
 * compression bombs do no harm.
 */
import { isAscii, isUtf8 } from 'node:buffer';
import type { Dispatcher } from 'undici';
import { BoundedBody } from './bounded-body.ts';
import { OUTCALL_FAILURES, type OutcallHeader, type OutcallRequest, type OutcallResponse } from './index.ts';

/**
 * Limit on interim answers (1xx) that are skipped: a server that sends one every 300 ms can do so for the default
 * deadline.
 */
const INTERIM_ANSWERS_MAX = 100;

const SHOWN_CHARACTERS = 100;

/**
 * Statuses without a body, whose `content-length` may be that of another answer. Those below 200 have none either, and
 * are not listed.
 */
export const BODILESS: ReadonlySet<number> = new Set([204, 304]);

/** Headers of the connection: the body that is passed on is no longer in the form that they describe. */
export const OF_THE_CONNECTION: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

interface CollectorEvents {
  /** Called when the connection takes the request. */
  readonly started: () => void;
  /** Called when the response is complete, and the connection may be used again. */
  readonly ended: (response: OutcallResponse) => void;
  /** Called at a failure; the connection must not be used again. */
  readonly failed: (error: unknown) => void;
}

export class ResponseCollector implements Dispatcher.DispatchHandler {
  readonly #request: OutcallRequest;
  readonly #events: CollectorEvents;
  #status = 0;
  #headers: readonly OutcallHeader[] = [];
  #interimAnswers = 0;
  readonly #body: BoundedBody;

  constructor(request: OutcallRequest, events: CollectorEvents) {
    this.#request = request;
    this.#events = events;
    this.#body = new BoundedBody(request.responseBytesMax);
  }

  onRequestStart(): void {
    this.#events.started();
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    if (status < 200) {
      if (++this.#interimAnswers > INTERIM_ANSWERS_MAX)
        throw OUTCALL_FAILURES['outcall-failed'](`the server sent more than ${INTERIM_ANSWERS_MAX} interim answers`);
      return;
    }
    this.#status = status;
    const { rawHeaders } = controller;
    if (!Array.isArray(rawHeaders)) throw new Error('undici hands headers over as an array');
    const headers: OutcallHeader[] = [];
    const encodings: string[] = [];
    const hasBody = this.#request.method !== 'HEAD' && !BODILESS.has(status);
    for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
      const name = textOf(rawHeaders[at]).toLowerCase();
      const written = textOf(rawHeaders[at + 1]);
      const value = withoutBlanksBehind(written);
      if (name === 'content-length' && hasBody) this.#body.expect(Number(value));
      if (name === 'transfer-encoding') encodings.push(value);
      if (!OF_THE_CONNECTION.has(name)) headers.push({ name, value });
    }
    if (hasBody && encodings.length > 0) expectKnown(encodings.join(', '));
    this.#headers = headers;
  }

  /** Takes the length of a chunk that is to come. Throws ServerError `outcall-too-large`. */
  announced(bytes: number): void {
    this.#body.expect(this.#body.length + bytes);
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    this.#body.add(chunk);
  }

  onResponseEnd(): void {
    this.#events.ended({ status: this.#status, headers: this.#headers, body: this.#body.bytes });
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#events.failed(error);
  }
}

/**
 * Throws for an unknown encoding: `transfer-encoding` is removed, so readers could not know that the body is encoded.
 * `identity` is none since RFC 7230.
 */
function expectKnown(encoding: string): void {
  if (encoding.toLowerCase() === 'chunked') return;
  const shown = JSON.stringify(encoding.slice(0, SHOWN_CHARACTERS));
  throw OUTCALL_FAILURES['outcall-failed'](`the server sends transfer-encoding ${shown}, and only chunked is taken`);
}

/**
 * Removes blanks at the end, which are no part of a value (RFC 9110, 5.5); the parser removes those at the beginning. A
 * regular expression would take quadratic time for many blanks.
 */
function withoutBlanksBehind(value: string): string {
  let end = value.length;
  while (end > 0 && (value[end - 1] === ' ' || value[end - 1] === '\t')) end--;
  return value.slice(0, end);
}

/** Decodes UTF-8 if the bytes are valid, otherwise one character for each byte: HTTP does not state the encoding. */
function textOf(bytes: Uint8Array | string | undefined): string {
  if (bytes === undefined || typeof bytes === 'string') return bytes ?? '';
  // Undici's own buffers are used directly, because each view would be another object.
  const buffer = bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return buffer.toString(isAscii(bytes) || !isUtf8(bytes) ? 'latin1' : 'utf8');
}
