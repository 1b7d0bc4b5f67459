import { OUTCALL_FAILURES, type OutcallRequest, type OutcallResponse, type Outcalls } from './index.ts';
import type { RecordedAnswer } from './recorded-line.ts';
import { keyOf, readRecording } from './recording-file.ts';

const SHOWN_URL_CHARACTERS = 200;

/**
 * `--outcalls-replay FILE`: answers from a recording, and opens no connection. Requests with the same method, URL and
 * body get the answers recorded for them one after the other; a request without a remaining answer is refused.
 */
export class ReplayedOutcalls implements Outcalls {
  readonly #file: string;
  #answers: ReadonlyMap<string, RecordedAnswer[]> = new Map();

  constructor(file: string) {
    this.#file = file;
  }

  /** Reads the recording. Returns what is to be told of it. Rejects with ServerError `outcalls-file-bad`. */
  async open(): Promise<string | undefined> {
    const { answers, warning } = await readRecording(this.#file);
    // Reversed, because removing from the end costs nothing.
    for (const list of answers.values()) list.reverse();
    this.#answers = answers;
    return warning;
  }

  async send(request: OutcallRequest, { signal }: { readonly signal: AbortSignal }): Promise<OutcallResponse> {
    signal.throwIfAborted();
    const answers = this.#answers.get(keyOf(request));
    const answer = answers?.pop();
    if (answer === undefined) {
      const { method, url } = request;
      const shown = url.length > SHOWN_URL_CHARACTERS ? `${url.slice(0, SHOWN_URL_CHARACTERS)}…` : url;
      const why = answers === undefined ? 'has no answer to' : 'has no more answers to';
      throw OUTCALL_FAILURES['outcall-not-recorded'](
        `the recording ${why} ${method} ${shown} with this body of ${request.body.length} bytes`,
      );
    }
    if ('failure' in answer) throw OUTCALL_FAILURES[answer.failure.code](answer.failure.message);
    return answer.response;
  }
}
