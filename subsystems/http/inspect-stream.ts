import { ActorSnapshots, type Page } from './actor-snapshots.ts';
import { arrayFrames, OpenActor } from './open-actor.ts';
import { RoundStream } from './round-stream.ts';
import type { RouteHost } from './route.ts';

/**
 * Returns the stream of a client that looks at actors. Every two seconds it is told, in this order: of the actor that
 * it has open, `actor` and `history`; then the actors of its page, as an event without a name.
 */
export function inspectStream(host: RouteHost, page: Page, open: string | undefined): RoundStream {
  const opened = open === undefined ? undefined : new OpenActor(host, open);
  return new RoundStream(host, 'inspect', function* frames(): Generator<Uint8Array, undefined> {
    const snapshots = new ActorSnapshots(host);
    if (opened !== undefined) yield* opened.frames(snapshots);
    yield* arrayFrames(undefined, snapshots.chosen(page), (canister) => snapshots.textOf(canister));
  });
}
