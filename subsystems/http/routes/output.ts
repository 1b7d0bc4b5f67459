import type { DebugLine, OutputFollowing } from '../../canisters/index.ts';
import { ServerError } from '../../../kernel/index.ts';
import { preferredType } from '../accept.ts';
import { eventFrame } from '../event-streams.ts';
import { answerJsonArray } from '../json-array.ts';
import { outputReader } from '../output-stream.ts';
import type { Handlers, RouteHost } from '../route.ts';

/** A line's number, or its id: behind the number of the process that has given it. */
const LINE = /^(?:([0-9a-z]{1,11})-)?(0|[1-9][0-9]{0,14})$/u;
const RADIX = 36;
const NOTHING = new Uint8Array(0);

/**
 * `GET /x/actors/<ACTOR>/output`: what an actor has printed, behind a line, as JSON; or, to a client that prefers
 * events, that and each line as it is printed. Nobody else misses a line by it.
 */
export function outputHandlers(host: RouteHost): Pick<Handlers, 'GET /x/actors/:actor/output'> {
  const { canisters, jobs, responder, streams } = host;
  const lines = new LineTexts(canisters, Math.floor(jobs.nowMs()).toString(RADIX));
  return {
    async 'GET /x/actors/:actor/output'(request, response, { actor }, query) {
      const startedMs = jobs.nowMs();
      const canister = canisters.resolve(actor);
      const { headers } = request;
      const done = (): void => jobs.done('output', canister, '', startedMs);
      const after = lines.numberOf(query.get('after') ?? '0');
      if (after === undefined) {
        const expected = 'query parameter after: expected the number or the id of a line, as this route tells it';
        throw new ServerError('invalid', 'bad-parameter', expected);
      }
      const message = query.get('message');
      const isWanted = (line: DebugLine): boolean => message === undefined || lines.messageOf(line) === message;
      if (preferredType(headers.accept, ['application/json', 'text/event-stream']) !== 'text/event-stream') {
        await answerJsonArray(responder, response, canisters.outputOf(canister, after), (line) =>
          isWanted(line) ? lines.jsonOf(line) : undefined,
        );
        done();
        return;
      }
      // A browser that comes back says itself what it has.
      const last = headers['last-event-id'];
      let following: OutputFollowing = { resume: () => undefined, end: () => undefined };
      const stream = streams.open(request, response, {
        drained: () => following.resume(),
        closed: () => {
          following.end();
          done();
        },
      });
      const reader = outputReader(stream, canister, (line) => (isWanted(line) ? lines.frameOf(line) : NOTHING));
      const seen = typeof last === 'string' ? lines.numberOf(last) : undefined;
      following = canisters.readOutput(canister, reader, seen ?? after);
      // The first lines may have been too many for it.
      if (!stream.isOpen) following.end();
    },
  };
}

/** Lines as clients see them. */
class LineTexts {
  readonly #canisters: RouteHost['canisters'];
  readonly #process: string;

  /** `process`: tells this process from those before it, whose numbers come again. */
  constructor(canisters: RouteHost['canisters'], process: string) {
    this.#canisters = canisters;
    this.#process = process;
  }

  frameOf(line: DebugLine): Uint8Array {
    return eventFrame({ id: this.#idOf(line), event: 'debug', data: this.jsonOf(line) });
  }

  #idOf({ seq }: DebugLine): string {
    return `${this.#process}-${seq}`;
  }

  messageOf({ message }: DebugLine): string | null {
    return message === 0 ? null : this.#canisters.messageIdOf(message);
  }

  jsonOf(line: DebugLine): string {
    const { seq, timeMs, text } = line;
    return JSON.stringify({
      id: this.#idOf(line),
      seq,
      time: new Date(timeMs).toISOString(),
      message: this.messageOf(line),
      text,
    });
  }

  /** Returns the number of the line that a client means; 0: one of another process; undefined: that is no line. */
  numberOf(given: string): number | undefined {
    const found = LINE.exec(given);
    if (found === null) return undefined;
    const [, process = this.#process, seq] = found;
    return process === this.#process ? Number(seq) : 0;
  }
}
