import { ServerError } from '../../../kernel/index.ts';
import { PAGE_BYTES, sharedBytes } from '../../bytes/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import type { PageAsked, PastMessage, PastState, Place, TimelineEntry, TimelinePage } from '../../timeline/index.ts';
import { type PageMap, putPages } from './capsule-pages.ts';
import type { Capsule, CapsulePart } from './decode-capsule.ts';

/** Memories as a message found them. */
interface Found {
  readonly place: number;
  readonly heap: PageMap;
  readonly stable: PageMap;
}

/** The messages of a capsule, as a timeline has them. */
export class CapsuleTimeline {
  readonly #capsule: Capsule;
  readonly #otherServer: string | undefined;
  #found: Found | undefined;

  /** `otherServer`: facts that are others here than where the capsule was made; undefined: none. */
  constructor(capsule: Capsule, otherServer: string | undefined) {
    this.#capsule = capsule;
    this.#otherServer = otherServer;
  }

  /** Rejects with ServerError `point-missing`. */
  async messageAt(_id: Uint8Array, seq: number): Promise<PastMessage> {
    const { parts, modules } = this.#capsule;
    const place = parts.findIndex(({ entry }) => entry.seq === seq);
    const part = parts[place];
    if (part === undefined) throw missing(`the capsule has no seq:${seq}`);
    const { entry, before, after, changed, isAlone } = part;
    const wasmOf = (hash: string | undefined): Uint8Array | undefined =>
      hash === undefined ? undefined : modules.get(hash);
    const others = [part.otherServer, this.#otherServer].filter((each) => each !== undefined);
    return {
      entry,
      before: { ...before, wasm: wasmOf(before.moduleHash), image: imageOf(before, this.#memoriesAt(place)) },
      after: { ...after, wasm: wasmOf(after.moduleHash), changed },
      isAlone,
      otherServer: others.length === 0 ? undefined : others.join(', '),
    };
  }

  async entries(_id: Uint8Array, { from, limit }: PageAsked): Promise<TimelinePage> {
    const first = from?.kind === 'seq' ? from.seq : 0;
    const all = this.#capsule.parts.map(({ entry }) => entry).filter(({ seq }) => seq >= first);
    const entries: readonly TimelineEntry[] = all.slice(0, limit);
    const before = { ...this.#last, seq: this.#capsule.head.from - 1 };
    return { entries, next: all[limit]?.seq, reach: { from: before, to: this.#last } };
  }

  /** Resolves with the place of the last message: the capsule has no other point. */
  async placeOf(): Promise<Place> {
    return this.#last;
  }

  get #last(): Place {
    const last = this.#capsule.parts.at(-1);
    if (last === undefined) throw missing('the capsule has no message');
    const { seq, unit, timeMs } = last.entry;
    return { seq, unit, timeMs };
  }

  /** Returns the memories before a message, made of those before the last one that was asked for, if it was earlier. */
  #memoriesAt(place: number): Found {
    let found = this.#found;
    if (found === undefined || found.place > place)
      found = nextOf({ place: -1, heap: new Map(), stable: new Map() }, undefined, this.#capsule.parts[0]);
    while (found.place < place)
      found = nextOf(found, this.#capsule.parts[found.place], this.#capsule.parts[found.place + 1]);
    return (this.#found = found);
  }
}

/** Returns the memories before the next message. */
function nextOf({ place, heap, stable }: Found, part: CapsulePart | undefined, next: CapsulePart | undefined): Found {
  const memories = { heap, stable };
  for (const memory of ['heap', 'stable'] as const) {
    if (part?.after.isNew === true) memories[memory].clear();
    if (part !== undefined) putPages(memories[memory], part.changed[memory], part.after[`${memory}Bytes`]);
    if (next !== undefined) putPages(memories[memory], next.found[memory], next.before[`${memory}Bytes`]);
  }
  return { place: place + 1, ...memories };
}

function imageOf(
  { heapBytes, stableBytes, image }: CapsulePart['before'],
  { heap, stable }: Found,
): PastState['image'] {
  const bytes = sharedBytes(heapBytes);
  for (const [number, page] of heap) bytes.set(page, number * PAGE_BYTES);
  return { ...image, heap: bytes, stable: piecesOf(stable), stablePages: stableBytes / WASM_PAGE_BYTES };
}

/** Returns pages that follow each other as one piece of shared bytes. */
function piecesOf(map: PageMap): PastState['image']['stable'] {
  const pages = [...map].toSorted(([a], [b]) => a - b);
  const all = sharedBytes(pages.length * PAGE_BYTES);
  const pieces: { readonly offset: number; readonly bytes: Uint8Array }[] = [];
  let begun = 0;
  for (const [at, [number, page]] of pages.entries()) {
    all.set(page, at * PAGE_BYTES);
    if (pages[at + 1]?.[0] === number + 1) continue;
    const bytes = all.subarray(begun * PAGE_BYTES, (at + 1) * PAGE_BYTES);
    pieces.push({ offset: (number + 1) * PAGE_BYTES - bytes.length, bytes });
    begun = at + 1;
  }
  return pieces;
}

function missing(text: string): ServerError {
  return new ServerError('missing', 'point-missing', text);
}
