import type { DebugLine, OutputFollowing } from '../../canisters/index.ts';
import { eventFrame } from '../event-streams.ts';
import { outputReader } from '../output-stream.ts';
import type { Handlers, RouteHost } from '../route.ts';

const LINE_NUMBER = /^[0-9]{1,15}$/;

/**
 * `GET /events/<ACTOR>`: the actor's debug output as it is printed. Shares the lines with `/logs` and all other
 * clients that follow it.
 */
export function eventsHandlers({ canisters, streams }: RouteHost): Pick<Handlers, 'GET /events/:actor'> {
  return {
    'GET /events/:actor'(request, response, { actor }) {
      const canister = canisters.resolve(actor);
      let following: OutputFollowing = { resume: () => undefined, end: () => undefined };
      const stream = streams.open(request, response, {
        drained: () => following.resume(),
        closed: () => following.end(),
      });
      const lastSeq = lineNumberOf(request.headers['last-event-id']);
      following = canisters.followOutput(canister, outputReader(stream, canister, frameOf), lastSeq);
      // The first lines may have been too many for it.
      if (!stream.isOpen) following.end();
    },
  };
}

function frameOf({ seq, text }: DebugLine): Uint8Array {
  return eventFrame({ id: seq, event: 'debug', data: text });
}

/** Returns the number of the line that the client saw last, or undefined if the header is no such number. */
function lineNumberOf(header: string | string[] | undefined): number | undefined {
  return typeof header === 'string' && LINE_NUMBER.test(header) ? Number(header) : undefined;
}
