import type { FileHandle } from 'node:fs/promises';
import { messageOf, ServerError } from '../../kernel/index.ts';
import { isOutcallFailure } from './outcall-failures.ts';
import { OUTCALL_FAILURES, type OutcallRequest, type OutcallResponse, type Outcalls } from './index.ts';
import { NOT_RECORDED, type RecordedAnswer } from './recorded-line.ts';
import { lineOf, openRecording, RECORDING_BYTES_MAX } from './recording-file.ts';

/**
 * `--outcalls-record FILE`: sends requests, and records the results in the order of their arrival. A result is written
 * before it is returned, so a recording contains everything that a run has seen.
 */
export class RecordingOutcalls implements Outcalls {
  readonly #outcalls: Outcalls;
  readonly #file: string;
  #handle: FileHandle | undefined;
  #bytes = 0;
  /** Resolves when all lines so far are written; one line is written after the other. */
  #written: Promise<void> = Promise.resolve();

  constructor(outcalls: Outcalls, file: string) {
    this.#outcalls = outcalls;
    this.#file = file;
  }

  /** Opens the recording. Rejects with ServerError `outcalls-file-bad`. */
  async open(): Promise<void> {
    const { handle, bytes } = await openRecording(this.#file);
    this.#handle = handle;
    this.#bytes = bytes;
  }

  async send(request: OutcallRequest, options: { readonly signal: AbortSignal }): Promise<OutcallResponse> {
    try {
      const response = await this.#outcalls.send(request, options);
      await this.#record(request, { response });
      return response;
    } catch (error) {
      // A stop of the server must not be replayed.
      if (error instanceof ServerError && isOutcallFailure(error.code) && !NOT_RECORDED.has(error.code))
        await this.#record(request, { failure: { code: error.code, message: error.message } });
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#written;
    await this.#handle?.close();
    this.#handle = undefined;
  }

  async #record(request: OutcallRequest, answer: RecordedAnswer): Promise<void> {
    const line = `${lineOf(request, answer)}\n`;
    const write = this.#written.then(() => this.#append(line));
    // The caller gets the error; the next line is tried again.
    this.#written = write.catch(() => undefined);
    await write;
  }

  async #append(line: string): Promise<void> {
    const failed = OUTCALL_FAILURES['outcall-recording-failed'];
    if (this.#handle === undefined) throw failed('the recording of outcalls is closed: the server is stopping');
    const bytes = Buffer.byteLength(line);
    if (this.#bytes + bytes > RECORDING_BYTES_MAX)
      throw failed(`the recording of outcalls has its ${RECORDING_BYTES_MAX} bytes: begin another one`);
    try {
      await this.#handle.appendFile(line);
    } catch (error) {
      throw failed(`the recording of outcalls cannot be written: ${messageOf(error)}`);
    }
    this.#bytes += bytes;
  }
}
