import type { DebugLine, OutputReader } from '../../canisters/index.ts';
import { eventFrame } from '../event-streams.ts';
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
      const stream = streams.open(request, response, {
        drained: () => following.resume(),
        closed: () => following.end(),
      });
      const reader: OutputReader = {
        get hasRoom() {
          return stream.hasRoom;
        },
        write: (lines) => void stream.send(Buffer.concat(lines.map(frameOf))),
        ended: () => {
          stream.send(eventFrame({ event: 'deleted', data: canister.name }));
          stream.end();
        },
      };
      const following = canisters.followOutput(canister, reader, lineNumberOf(request.headers['last-event-id']));
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
