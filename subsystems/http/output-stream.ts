import type { DebugLine, OutputReader } from '../canisters/index.ts';
import { type EventStream, eventFrame } from './event-streams.ts';

/** Returns the reader that writes an actor's output into a stream, and ends that when the actor is deleted. */
export function outputReader(
  stream: EventStream,
  { name }: { readonly name: string },
  frameOf: (line: DebugLine) => Uint8Array,
): OutputReader {
  return {
    get hasRoom() {
      return stream.hasRoom;
    },
    write: (lines) => void stream.send(Buffer.concat(lines.map(frameOf))),
    ended: () => {
      stream.send(eventFrame({ event: 'deleted', data: name }));
      stream.end();
    },
  };
}
