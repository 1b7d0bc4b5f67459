/** Values of keys, in the tables and in the layers over them: read in pieces, in the order of the keys. */
import { setImmediate } from 'node:timers/promises';
import { ServerError } from '../api/plugin.ts';
import {
  type Family,
  memoryId,
  META,
  metaKey,
  type MetaLetter,
  PAGE_BYTES,
  PageCollector,
  prefixEnd,
  RecordPacker,
  type StorageAnswers,
  type StoredPages,
} from '../api/storage.ts';
import { byteaArray } from './arrays.ts';
import { bufferOf } from './database.ts';
import type { Connection, Row } from './connection.ts';
import { codeOf } from './database-errors.ts';
import { bytesOf, type Layer, LayeredEntries, textOf } from './layer.ts';
import { CHUNK_PAGES, readPages } from './page-query.ts';
import { CHUNK_BYTES, CHUNK_ROWS, familyNumber, PIECE_BYTES, SQL } from './schema.ts';

/** Entries of layers that are taken in one turn of the event loop: about a mebibyte of pages. */
const TURN_ENTRIES = 256;
const NO_KEY = new Uint8Array(0);

export type TableEntry = readonly [key: Buffer, value: Buffer];

/** Entries of the tables alone, with `from` ≤ key < `to`, some at a time. */
export async function* tableEntries(
  connection: Connection,
  namespace: string,
  family: Family,
  from: Uint8Array,
  to: Uint8Array | undefined,
): AsyncGenerator<readonly TableEntry[], void, void> {
  if (hasPages(family) && connection.sendsBytes) {
    yield* tablePages(connection, namespace, family, from, to);
    return;
  }
  let after: readonly [key: Buffer, piece: number] = [bufferOf(from), -1];
  const joiner = new PieceJoiner();
  for (;;) {
    const bounds = [namespace, familyNumber(family), ...after];
    const { rows } =
      to === undefined
        ? await connection.query(SQL.readFrom, bounds)
        : await connection.query(SQL.readBetween, [...bounds, bufferOf(to)]);
    let bytes = 0;
    for (const row of rows) {
      const { key, piece, value } = pieceOf(row);
      bytes += value.length;
      joiner.add(key, piece, value);
      after = [key, piece];
    }
    const isLast = rows.length < CHUNK_ROWS && bytes < CHUNK_BYTES;
    const whole = checked(family, joiner.take(isLast));
    if (whole.length > 0) yield whole;
    if (isLast) return;
  }
}

/** Does what `tableEntries` does for pages, each of which is one row of 4 KiB: so a limit of rows is one of bytes. */
async function* tablePages(
  connection: Connection,
  namespace: string,
  family: Family,
  from: Uint8Array,
  to: Uint8Array | undefined,
): AsyncGenerator<readonly TableEntry[], void, void> {
  let after: Uint8Array | undefined;
  for (;;) {
    const rows = await connection.bytesOf(readPages({ namespace, family, from, to, after }));
    const pages = rows.map(([key, value]): TableEntry => {
      if (key === undefined || value === undefined) throw corrupt('a row of svc_entries has no bytes');
      return [key, value];
    });
    if (pages.length > 0) yield checked(family, pages);
    if (pages.length < CHUNK_PAGES) return;
    after = pages.at(-1)?.[0];
  }
}

function hasPages(family: Family): boolean {
  return family === 'heap' || family === 'stable';
}

function pieceOf([key, piece, value]: Row): { readonly key: Buffer; readonly piece: number; readonly value: Buffer } {
  if (!(key instanceof Buffer) || !(value instanceof Buffer)) throw corrupt('a row of svc_entries has no bytes');
  return { key, piece: Number(piece), value };
}

/** Makes values of their pieces. */
class PieceJoiner {
  #whole: TableEntry[] = [];
  #key: Buffer | undefined;
  #pieces: Buffer[] = [];

  add(key: Buffer, piece: number, value: Buffer): void {
    if (piece === 0) this.#close();
    else if (this.#key?.equals(key) !== true || this.#pieces.length !== piece)
      throw corrupt(`svc_entries lacks a piece before piece ${piece} of ${key.toString('hex')}`);
    this.#key = key;
    this.#pieces.push(value);
  }

  #close(): void {
    const [first, ...more] = this.#pieces;
    if (this.#key === undefined || first === undefined) return;
    this.#whole.push([this.#key, more.length === 0 ? first : Buffer.concat(this.#pieces)]);
    this.#key = undefined;
    this.#pieces = [];
  }

  /** Returns the entries that are whole; all entries, if there is nothing more to come. */
  take(isLast: boolean): readonly TableEntry[] {
    const { length } = this.#pieces;
    // A last piece that is full may have another behind it; so may none be told from it.
    if (isLast || (length > 0 && (this.#pieces[length - 1]?.length ?? 0) < PIECE_BYTES)) this.#close();
    const whole = this.#whole;
    this.#whole = [];
    return whole;
  }
}

/** Values of some keys, in the tables alone. */
export async function tableValues(
  connection: Connection,
  namespace: string,
  family: Family,
  keys: readonly Uint8Array[],
): Promise<ReadonlyMap<string, Buffer>> {
  if (keys.length === 0) return new Map();
  const { rows } = await connection.query(SQL.readKeys, [namespace, familyNumber(family), byteaArray(keys)]);
  const joiner = new PieceJoiner();
  for (const row of rows) {
    const { key, piece, value } = pieceOf(row);
    joiner.add(key, piece, value);
  }
  return new Map(checked(family, joiner.take(true)).map(([key, value]) => [textOf(key), value]));
}

/** A page that is too short would get zeros where nothing is laid over it. */
function checked(family: Family, entries: readonly TableEntry[]): readonly TableEntry[] {
  if (!hasPages(family)) return entries;
  for (const [key, { length }] of entries) {
    if (length !== PAGE_BYTES)
      throw corrupt(`the page ${family}/${key.toString('hex')} has ${length} bytes instead of ${PAGE_BYTES}`);
  }
  return entries;
}

/** Reads what units up to now have made; `layers`: the oldest first. What comes out is the caller's own. */
export class EntryReader {
  readonly #connection: Connection;
  readonly #namespace: string;
  readonly #layers: readonly Layer[];

  constructor(connection: Connection, namespace: string, layers: readonly Layer[]) {
    this.#connection = connection;
    this.#namespace = namespace;
    this.#layers = layers;
  }

  async get(family: Family, key: Uint8Array): Promise<Uint8Array | undefined> {
    return (await this.#getMany(family, [key]))[0];
  }

  async #getMany(family: Family, keys: readonly Uint8Array[]): Promise<(Uint8Array | undefined)[]> {
    const texts = keys.map(textOf);
    const said = new LayeredEntries();
    for (const layer of this.#layers) for (const key of texts) layer.layOverOne(said, family, key);
    const needed = texts.filter((key) => said.needs(key)).map(bytesOf);
    const values = await tableValues(this.#connection, this.#namespace, family, needed);
    return texts.map((key) => {
      const value = said.over(key, values.get(key));
      return value && new Uint8Array(value);
    });
  }

  async range(family: Family, prefix: Uint8Array): Promise<StorageAnswers['range']> {
    const found: [Uint8Array, Uint8Array][] = [];
    await this.#each(family, prefix, this.#said(family, prefix), (key, value) =>
      found.push([new Uint8Array(bytesOf(key)), new Uint8Array(value)]),
    );
    return found;
  }

  async keys(family: Family, from: Uint8Array): Promise<StorageAnswers['keys']> {
    const said = this.#said(family, NO_KEY);
    const parameters = [this.#namespace, familyNumber(family), bufferOf(from)];
    const { rows } = await this.#connection.query(SQL.listKeys, parameters);
    const stored = new Set(rows.map(keyOf));
    const next = rows.length > CHUNK_ROWS ? [...stored].at(-1) : undefined;
    const start = textOf(from);
    const keys = [...new Set([...stored, ...said.sortedKeys()])]
      .filter((key) => key >= start && (next === undefined || key < next))
      .filter((key) => said.over(key, stored.has(key) ? NO_KEY : undefined) !== undefined);
    return { keys: keys.sort().map(plainOf), next: next === undefined ? undefined : plainOf(next) };
  }

  async values(
    family: Family,
    prefix: Uint8Array,
    said = this.#said(family, prefix),
  ): Promise<StorageAnswers['values']> {
    const packer = new RecordPacker();
    await this.#each(family, prefix, said, (_key, value) => packer.add(value));
    return packer.take();
  }

  async canister(id: Uint8Array): Promise<StorageAnswers['canister']> {
    const letters: readonly MetaLetter[] = [META.copy, META.globals, META.certifiedData, META.checkpoint];
    const keys = letters.map((letter) => metaKey(letter, id));
    const meta = this.#getMany('meta', keys);
    // All of it as of one moment, before anything is waited for: of both copies of the memory.
    const said = [0, 1].map((copy) => ({
      heap: this.#said('heap', memoryId(id, copy)),
      stable: this.#said('stable', memoryId(id, copy)),
    }));
    const log = this.#said('log', id);
    const [copied, globals, certifiedData, checkpoint] = await meta;
    const copy = copied?.[0] ?? 0;
    const memory = memoryId(id, copy);
    const { heap, stable } = said[copy] ?? { heap: new LayeredEntries(), stable: new LayeredEntries() };
    return {
      memory: { heap: await this.#pages('heap', memory, heap), stable: await this.#pages('stable', memory, stable) },
      copy,
      globals,
      certifiedData,
      checkpoint,
      records: await this.values('log', id, log),
    };
  }

  async #pages(family: 'heap' | 'stable', id: Uint8Array, said: LayeredEntries): Promise<StoredPages> {
    const pages = new PageCollector();
    await this.#each(family, id, said, (key, value) => {
      if (value.length !== PAGE_BYTES || key.length !== id.length + 4)
        throw corrupt(
          `the page ${family}/${bytesOf(key).toString('hex')} has ${value.length} bytes instead of ${PAGE_BYTES}`,
        );
      pages.add(bytesOf(key).readUInt32BE(id.length), value);
    });
    return pages.take();
  }

  /** Returns what the layers say now, without what is applied to them later. */
  #said(family: Family, prefix: Uint8Array): LayeredEntries {
    const said = new LayeredEntries();
    for (const layer of this.#layers) layer.layOver(said, family, textOf(prefix));
    return said;
  }

  /** In the order of the keys. */
  async #each(
    family: Family,
    prefix: Uint8Array,
    said: LayeredEntries,
    take: (key: string, value: Uint8Array) => void,
  ): Promise<void> {
    const keys = said.sortedKeys();
    let at = 0;
    const takeUntil = async (end: string | undefined): Promise<void> => {
      for (let key = keys[at]; key !== undefined && (end === undefined || key < end); key = keys[++at]) {
        const value = said.over(key, undefined);
        if (value !== undefined) take(key, value);
        if (at % TURN_ENTRIES === 0) await setImmediate();
      }
    };
    if (!said.hides(textOf(prefix))) {
      for await (const entries of tableEntries(this.#connection, this.#namespace, family, prefix, prefixEnd(prefix))) {
        for (const [bytes, value] of entries) {
          const key = textOf(bytes);
          if ((keys[at] ?? key) < key) await takeUntil(key);
          if (keys[at] === key) at++;
          const newer = said.over(key, value);
          if (newer !== undefined) take(key, newer);
        }
      }
    }
    await takeUntil(undefined);
  }
}

function keyOf([key]: Row): string {
  if (!(key instanceof Buffer)) throw corrupt('a row of svc_entries has no key');
  return textOf(key);
}

/** No view of a larger buffer. */
function plainOf(key: string): Uint8Array {
  return new Uint8Array(bytesOf(key));
}

export function corrupt(message: string): ServerError {
  return new ServerError('unavailable', 'state-corrupt', message);
}

/** About what the tables take; counted where the engine cannot say. */
export async function tableBytes(connection: Connection, namespace: string): Promise<number> {
  try {
    const { rows } = await connection.query(SQL.bytes, []);
    return Number(rows[0]?.[0] ?? 0);
  } catch (error) {
    if (codeOf(error) !== UNDEFINED_FUNCTION) throw error;
    const { rows } = await connection.query(SQL.countBytes, [namespace]);
    return Number(rows[0]?.[0] ?? 0);
  }
}

const UNDEFINED_FUNCTION = '42883';
