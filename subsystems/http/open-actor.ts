import { ServerError, TimeSlices } from '../../kernel/index.ts';
import type { Canister } from '../canisters/index.ts';
import { ActorSnapshots } from './actor-snapshots.ts';
import { eventFrame } from './event-streams.ts';
import { JsonArrayPieces } from './json-array.ts';
import type { RouteHost } from './route.ts';
import { shownEntry } from './routes/history.ts';

/** The actor that a client has open, in a stream of rounds. */
export class OpenActor {
  readonly #host: RouteHost;
  /** Name, id or principal. */
  readonly #reference: string;
  /** Actor whose history the client has, up to and with the number of an entry. */
  #told: { readonly canister: Canister; readonly seq: number } | undefined;

  constructor(host: RouteHost, reference: string) {
    this.#host = host;
    this.#reference = reference;
  }

  /** Yields `actor` (a snapshot, or null) and, where messages have ended since the last round, `history`. */
  *frames(snapshots: ActorSnapshots = new ActorSnapshots(this.#host)): Generator<Uint8Array, undefined> {
    const canister = this.#find();
    yield eventFrame({ event: 'actor', data: snapshots.textOf(canister) ?? 'null' });
    if (canister !== undefined) yield* this.#historyFrames(canister);
  }

  #find(): Canister | undefined {
    try {
      return this.#host.canisters.resolve(this.#reference);
    } catch (error) {
      if (error instanceof ServerError) return undefined;
      throw error;
    }
  }

  /** Yields the whole history if it has entries that the client does not know. */
  *#historyFrames(canister: Canister): Generator<Uint8Array, undefined> {
    const { canisters, codec } = this.#host;
    const isKnown = this.#told?.canister === canister;
    let seq = isKnown ? (this.#told?.seq ?? 0) : 0;
    const [newer] = canisters.historyOf(canister, seq);
    if (isKnown && newer === undefined) return;
    yield* arrayFrames('history', canisters.historyOf(canister), (entry) => {
      seq = entry.seq;
      return JSON.stringify(shownEntry(entry, { codec, canisters }));
    });
    this.#told = { canister, seq };
  }
}

/** Yields an event whose data is a JSON array, a line of data for each part: line feeds between items mean nothing. */
export function* arrayFrames<T>(
  event: string | undefined,
  items: Iterable<T>,
  textOf: (item: T) => string | undefined,
): Generator<Uint8Array, undefined> {
  const pieces = new JsonArrayPieces(items, textOf);
  let head = event === undefined ? '' : `event: ${event}\n`;
  while (!pieces.isDone) {
    const text = pieces.next(new TimeSlices());
    yield Buffer.from(`${head}data: ${text}\n${pieces.isDone ? '\n' : ''}`, 'utf8');
    head = '';
  }
}
