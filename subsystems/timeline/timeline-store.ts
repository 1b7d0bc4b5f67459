/**
 * All timelines of a host: takes durable units, gives each actor its part, says whose base is wanted, keeps to the
 * bounds of time and bytes. The directory is `timeline/` of the state directory:
 *
 *     <id in hex>/<number>.tl     frames of an actor (`frame-format.ts`)
 *     <id in hex>/about.json      the number of its newest message, when all files are gone, and its labels
 *     modules/<SHA-256>.wasm      modules of past states
 *     servers.json                what has executed messages, by units
 *     last                        the newest unit that is on the disk here, and the one before which units are missing
 *
 * Units that come twice are known by their numbers. A unit that is missing is a gap: timelines begin anew behind it.
 * Timeline thread; synchronous.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';
import { ServerError } from '../../kernel/index.ts';
import { readFrame } from '../archive/index.ts';
import { PAGE_BYTES, PageEntries } from '../bytes/index.ts';
import { readIdentity } from '../canisters/stored/index.ts';
import { memoryId, META, metaKey, type StoredImage, type StoredPages, WriteBatch } from '../storage/index.ts';
import { ActorTimeline } from './actor-timeline.ts';
import type { PageAsked, PastMessage, PastState, Place, TimelinePage } from './index.ts';
import { KnownServers } from './known-servers.ts';
import { decodeNote, ownNote } from './note.ts';
import { splitUnit, type SplitUnit } from './split-unit.ts';
import type { TimePoint } from './time-point.ts';
import { appendAll, type AppendBytes, type TimelineFile } from './timeline-file.ts';

export interface TimelineBounds {
  /** Time for which messages are kept, in seconds. */
  readonly seconds: number;
  /** Bytes that all timelines may have. */
  readonly bytes: number;
  /** False if a power cut may lose the last moments (`--fsync off`). */
  readonly isSynced: boolean;
}

/** Result of taking units. */
export interface Taken {
  /** Ids of actors whose state is wanted as it is now. */
  readonly bases: readonly Uint8Array[];
}

export interface TimelineFigures {
  readonly bytes: number;
  readonly actors: number;
  readonly gaps: number;
  /** Time of the oldest message that is kept, ms since 1970; Infinity: there is none. */
  readonly oldestMs: number;
}

const ID = /^[0-9a-f]{20}$/;
const PRIVATE = { mode: 0o600 };
/** A file is followed by another from so many bytes on, whatever the bound is. */
const SPAN_BYTES_MAX = 16 * 2 ** 20;
const SPAN_BYTES_MIN = 128 * 1024;
/** A larger share of all bytes would be one actor's. */
const BASE_SHARE = 1 / 4;
/** Parts of the kept time after which a file is followed by another: a message may go so much too late. */
const AGES = 4;
/** Time for which the base of an actor that has too many bytes is not asked for again. */
const NO_BASE_MS = 60_000;
const BASES_AT_ONCE = 64;
const SWEEP_MS = 10_000;
const ENTRIES_OF_PATCH = 1_024;

export class TimelineStore {
  readonly #root: string;
  readonly #bounds: TimelineBounds;
  readonly #append: AppendBytes;
  readonly servers: KnownServers;
  readonly #actors = new Map<string, ActorTimeline>();
  /** Actors with a directory that nobody has looked into yet. */
  readonly #unread: Set<string>;
  readonly #modules: Set<string>;
  #moduleBytes = 0;
  /** The newest unit that was taken. */
  #last: number;
  /** Timelines that end at this unit, or before it, begin anew. */
  #gapAt = 0;
  /** No unit up to this one is missing; of several gaps it is the first that counts. */
  #gapBehind: number;
  #gaps = 0;
  #sweptMs = 0;

  constructor(directory: string, bounds: TimelineBounds, append: AppendBytes = appendAll) {
    this.#root = join(directory, 'timeline');
    this.#bounds = bounds;
    this.#append = append;
    mkdirSync(join(this.#root, 'modules'), { recursive: true, mode: 0o700 });
    this.servers = new KnownServers(this.#root);
    this.#unread = new Set(readdirSync(this.#root).filter((name) => ID.test(name)));
    const modules = readdirSync(join(this.#root, 'modules')).filter((name) => name.endsWith('.wasm'));
    this.#modules = new Set(modules.map((name) => name.slice(0, -'.wasm'.length)));
    for (const hash of this.#modules) this.#moduleBytes += statSync(this.#modulePath(hash)).size;
    const last = join(this.#root, 'last');
    const [unit = 0, gapAt = 0] = existsSync(last) ? readFileSync(last, 'utf8').split(' ').map(Number) : [];
    this.#last = unit || 0;
    this.#gapAt = gapAt || 0;
    this.#gapBehind = this.#gapAt > 0 ? 0 : Infinity;
  }

  /** The newest unit that was taken. */
  get last(): number {
    return this.#last;
  }

  // ---- units

  /**
   * Takes frames of units (`archive/segment-format.ts`), in order. Throws what the disk says: nothing of these units is
   * kept then, and there is a gap.
   */
  take(frames: Buffer, nowMs: number): Taken {
    const touched = new Set<ActorTimeline>();
    try {
      for (let at = 0; at < frames.length;) {
        const frame = readFrame(frames, at);
        if (typeof frame === 'string') throw new Error(`a unit for the timeline is ${frame}`);
        if (frame.unit > this.#last + 1) this.gap(frame.unit - 1);
        this.#takeUnit(frame, touched);
        this.#last = Math.max(this.#last, frame.unit);
        at = frame.end;
      }
      for (const actor of touched) actor.flush();
    } catch (error) {
      for (const actor of touched) actor.drop();
      this.gap(this.#last);
      throw error;
    }
    const bases = [...touched].filter((actor) => this.#wantsBase(actor, nowMs)).slice(0, BASES_AT_ONCE);
    for (const actor of bases) actor.isBaseWanted = true;
    this.#sweep(nowMs);
    return { bases: bases.map(({ id }) => id) };
  }

  /** Units up to this one are missing. */
  gap(unit: number): void {
    this.#gapBehind = Math.min(this.#gapBehind, this.#last);
    this.#gapAt = Math.max(this.#gapAt, unit);
    this.#last = Math.max(this.#last, unit);
    if (this.#unread.size + this.#actors.size > 0) this.#gaps++;
  }

  #takeUnit(
    { unit, timeMs, bytes }: { readonly unit: number; readonly timeMs: number; readonly bytes: Uint8Array },
    touched: Set<ActorTimeline>,
  ): void {
    const split = splitUnit(bytes);
    for (const [hex, { id, parts, isDeleted }] of split.actors) {
      // An actor's timeline begins with its first message.
      const isNoted = parts.some(({ note }) => note !== undefined);
      const actor = this.#actor(hex, isNoted ? id : undefined);
      if (actor === undefined || unit <= actor.lastUnit) continue;
      if (isDeleted) {
        this.#erase(hex, actor);
        touched.delete(actor);
        continue;
      }
      this.#keepModules(split);
      if (!actor.isEmpty && actor.lastUnit > 0 && (actor.lastUnit <= this.#gapAt || actor.isDamaged)) {
        actor.rotate(Math.min(this.#gapBehind, this.#gapAt));
        actor.isBaseWanted = false;
      }
      for (const [at, part] of parts.entries()) actor.add({ unit, timeMs, hasMore: at < parts.length - 1 }, part);
      touched.add(actor);
    }
  }

  #actor(hex: string, id: Uint8Array | undefined): ActorTimeline | undefined {
    const known = this.#actors.get(hex);
    if (known !== undefined || (id === undefined && !this.#unread.has(hex))) return known;
    this.#unread.delete(hex);
    const actor = new ActorTimeline(this.#root, id ?? Buffer.from(hex, 'hex'), this.#append);
    this.#actors.set(hex, actor);
    return actor;
  }

  #erase(hex: string, actor: ActorTimeline): void {
    actor.erase();
    this.#actors.delete(hex);
  }

  #all(): ActorTimeline[] {
    for (const hex of this.#unread) this.#actor(hex, Buffer.from(hex, 'hex'));
    return [...this.#actors.values()];
  }

  // ---- bases

  #wantsBase(actor: ActorTimeline, nowMs: number): boolean {
    if (actor.isBaseWanted || actor.isEmpty || nowMs < actor.noBaseUntilMs) return false;
    if (!actor.hasBase) return true;
    const isOld = nowMs - (actor.files.at(-1)?.firstMs ?? nowMs) > (this.#bounds.seconds * 1_000) / AGES;
    return isOld || actor.newestBytes > Math.max(this.#spanBytes, 2 * actor.baseBytes);
  }

  /** Bytes of a file: with many actors smaller ones, so that oldest files can go. */
  get #spanBytes(): number {
    const share = this.#bounds.bytes / (4 * (this.#actors.size + this.#unread.size + 1));
    return Math.min(SPAN_BYTES_MAX, Math.max(SPAN_BYTES_MIN, share));
  }

  /**
   * Takes the state of an actor, which was asked for; undefined: the actor has none. Returns the hash of its module if
   * that is wanted, too. Throws what the disk says.
   */
  base(id: Uint8Array, image: StoredImage | undefined, nowMs: number): string | undefined {
    const actor = this.#actors.get(Buffer.from(id).toString('hex'));
    if (actor === undefined) return undefined;
    actor.isBaseWanted = false;
    const { identity } = image ?? {};
    if (image === undefined || identity === undefined) return undefined;
    const bytes = image.memory.heap.numbers.length + image.memory.stable.numbers.length;
    if (bytes * PAGE_BYTES > this.#bounds.bytes * BASE_SHARE) {
      // To read an image of hundreds of megabytes takes the storage a second.
      actor.noBaseUntilMs = nowMs + NO_BASE_MS;
      return undefined;
    }
    const deflated = deflateRawSync(operationsOf(id, image), { level: 1 });
    if (actor.hasBase) actor.rotate();
    actor.addBase(deflated, image.until);
    try {
      actor.flush();
    } catch (error) {
      actor.drop();
      throw error;
    }
    const { moduleHash } = readIdentity(identity, id);
    return moduleHash === undefined || this.#modules.has(moduleHash) ? undefined : moduleHash;
  }

  // ---- modules

  #keepModules({ modules }: SplitUnit): void {
    for (const [hash, bytes] of modules) this.module(hash, bytes);
  }

  /** Keeps a module. */
  module(hash: string, bytes: Uint8Array): void {
    if (this.#modules.has(hash)) return;
    writeFileSync(`${this.#modulePath(hash)}.new`, bytes, PRIVATE);
    renameSync(`${this.#modulePath(hash)}.new`, this.#modulePath(hash));
    this.#modules.add(hash);
    this.#moduleBytes += bytes.length;
  }

  #modulePath(hash: string): string {
    return join(this.#root, 'modules', `${hash}.wasm`);
  }

  // ---- the disk

  /** Makes everything that was taken durable; returns the newest unit of that. */
  sync(): number {
    const { isSynced } = this.#bounds;
    for (const { files } of this.#actors.values()) files.at(-1)?.rest(isSynced);
    const path = join(this.#root, 'last');
    writeFileSync(`${path}.new`, `${this.#last} ${this.#gapAt}`, PRIVATE);
    renameSync(`${path}.new`, path);
    return this.#last;
  }

  get #bytes(): number {
    return this.#all().reduce((sum, { bytes }) => sum + bytes, this.#moduleBytes);
  }

  /** Deletes what is too old, and the oldest where there is too much. */
  #sweep(nowMs: number): void {
    const isDue = nowMs - this.#sweptMs >= SWEEP_MS;
    if (!isDue && this.#bytes <= this.#bounds.bytes) return;
    this.#sweptMs = nowMs;
    const sinceMs = nowMs - this.#bounds.seconds * 1_000;
    for (const actor of this.#all())
      for (const file of actor.files.slice()) {
        if (file.lastMs >= sinceMs || actor.isPinned(file)) break;
        actor.forgetOldest();
      }
    this.#sweepBytes();
    this.#sweepModules();
  }

  #sweepBytes(): void {
    let tooMany = this.#bytes - this.#bounds.bytes;
    if (tooMany <= 0) return;
    const candidates = this.#all().flatMap((actor) =>
      actor.files.map((file, at) => ({ actor, file, rank: rankOf(actor, file, at) })),
    );
    for (const { actor, file } of candidates.toSorted((a, b) => a.rank - b.rank || a.file.lastMs - b.file.lastMs)) {
      if (tooMany <= 0) break;
      // Files of an actor go oldest first.
      while (tooMany > 0 && actor.files.includes(file)) {
        tooMany -= actor.files[0]?.bytes ?? 0;
        actor.forgetOldest();
      }
    }
  }

  /** Deletes modules when no timeline is left that could have used them. */
  #sweepModules(): void {
    if (this.#all().some(({ files }) => files.length > 0)) return;
    for (const hash of this.#modules) rmSync(this.#modulePath(hash), { force: true });
    this.#modules.clear();
    this.#moduleBytes = 0;
  }

  get figures(): TimelineFigures {
    const actors = this.#all().filter(({ files }) => files.length > 0);
    const oldestMs = Math.min(...actors.map(({ files }) => files[0]?.firstMs ?? Infinity), Infinity);
    return { bytes: this.#bytes, actors: actors.length, gaps: this.#gaps, oldestMs };
  }

  // ---- questions

  page(id: Uint8Array, asked: PageAsked, nowMs: number): TimelinePage {
    return this.#known(id).page(asked, nowMs);
  }

  placeOf(id: Uint8Array, point: TimePoint, nowMs: number): Place {
    return this.#known(id).placeOf(point, nowMs);
  }

  stateAt(id: Uint8Array, point: TimePoint, nowMs: number): PastState {
    const { rows, place } = this.#known(id).rowsAt(point, nowMs);
    const state = rows.state(place);
    return { ...state, wasm: this.#wasmOf(state.moduleHash), sha256: rows.hashes(state) };
  }

  messageAt(id: Uint8Array, seq: number): PastMessage {
    const { rows, place, frame } = this.#known(id).before(seq);
    const was = rows.state(place);
    const note = decodeNote(frame.note);
    rows.apply(frame.operations, note);
    const { unit, timeMs } = frame;
    const is = rows.stateBehind({ seq, unit, timeMs });
    const wasm = this.#wasmOf(was.moduleHash);
    // A change of settings that came while the message waited in its executor is stored before it.
    const version = Math.min(was.version, note.version);
    return {
      entry: { seq, unit, timeMs, note: ownNote(note), bytes: frame.operations.length, isArgumentCut: false },
      before: { ...was, version, wasm },
      after: { ...is, wasm: is.moduleHash === was.moduleHash ? wasm : this.#wasmOf(is.moduleHash) },
      isAlone: !rows.isReplaced,
      otherServer: this.servers.otherAt(unit),
    };
  }

  #wasmOf(moduleHash: string | undefined): Uint8Array | undefined {
    if (moduleHash === undefined) return undefined;
    if (!this.#modules.has(moduleHash))
      throw new ServerError('unavailable', 'timeline-damaged', `the timeline lacks the module ${moduleHash}`);
    return readFileSync(this.#modulePath(moduleHash));
  }

  label(id: Uint8Array, label: string, point: TimePoint, nowMs: number): Place {
    return this.#known(id).label(label, point, nowMs);
  }

  unlabel(id: Uint8Array, label: string): void {
    this.#known(id).unlabel(label);
  }

  #known(id: Uint8Array): ActorTimeline {
    const hex = Buffer.from(id).toString('hex');
    return this.#actor(hex, undefined) ?? new ActorTimeline(this.#root, id, this.#append);
  }
}

/** Files that others follow go first, then those that are written; what labels need goes last. */
function rankOf(actor: ActorTimeline, file: TimelineFile, at: number): number {
  if (actor.isPinned(file)) return 2;
  return at === actor.files.length - 1 ? 1 : 0;
}

/** Returns the operations that make an actor as it is stored. */
function operationsOf(id: Uint8Array, image: StoredImage): Uint8Array {
  const batch = new WriteBatch();
  const { identity, numbers, globals, certifiedData, checkpoint, copy, memory } = image;
  const rows = { identity, numbers, globals, certifiedData, checkpoint, copy: Uint8Array.of(copy) } as const;
  for (const [name, value] of Object.entries(rows))
    if (value !== undefined) batch.put('meta', metaKey(META[name as keyof typeof rows], id), value);
  const owner = memoryId(id, copy);
  putPages(memory.heap, (count, body) => batch.patch('heap', owner, count, body));
  putPages(memory.stable, (count, body) => batch.patch('stable', owner, count, body));
  return batch.take();
}

function putPages({ numbers, chunks }: StoredPages, patch: (count: number, body: Uint8Array) => void): void {
  const entries = new PageEntries(patch, ENTRIES_OF_PATCH);
  let at = 0;
  for (const chunk of chunks)
    for (let offset = 0; offset < chunk.length; offset += PAGE_BYTES)
      entries.addWhole(numbers[at++] ?? 0, chunk, offset);
  entries.end();
}
