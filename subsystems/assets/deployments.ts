/**
 * Brings folders to actors: reads, compares by hash, sends what the actor lacks in a few messages at a time, and
 * commits all of it in one. Runs in the thread of `assets-thread.ts`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ServerError } from '../../kernel/index.ts';
import { blob, messageOf, nat, record, vec } from '../codec/known-values/index.ts';
import { parseOwnInterface } from '../codec/whole-tuples/index.ts';
import type { CallKind } from '../ic/index.ts';
import { METHODS_NEEDED, SEVERAL_CHUNKS } from './asset-methods.ts';
import { FileChanged, folderFault } from './faults.ts';
import { AssetFolder, PIECE_BYTES, piecesOf } from './folder.ts';
import type { AssetActor, AssetChanges, AssetFolders, AssetSource } from './asset-folders.ts';
import { type AssetPlan, type ContentToSend, type ListedFile, planOf, type WantedFile, wantedFiles } from './plan.ts';

/** The part of the asset canister's interface that is used. */
const DID = `
  type Header = record { text; text };
  type Operation = variant {
    CreateAsset : record { key : text; content_type : text; headers : opt vec Header };
    SetAssetContent : record { key : text; content_encoding : text; chunk_ids : vec nat; sha256 : opt blob };
    UnsetAssetContent : record { key : text; content_encoding : text };
    SetAssetProperties : record { key : text; headers : opt opt vec Header };
    DeleteAsset : record { key : text };
  };
  type Listed = record {
    key : text; content_type : text; headers : opt vec Header;
    encodings : vec record { content_encoding : text; sha256 : opt blob };
  };
  service : {
    list : (record { start : opt nat; length : opt nat }) -> (vec Listed) query;
    create_batch : (record {}) -> (record { batch_id : nat });
    create_chunk : () -> (record { chunk_id : nat });
    create_chunks : () -> (record { chunk_ids : vec nat });
    commit_batch : (record { batch_id : nat; operations : vec Operation }) -> ();
  }`;
const INTERFACE = parseOwnInterface(DID);
/** Entries of one answer of `list`: with long names they have less than 2 MiB. */
const LISTED_AT_ONCE = 2000;
/** Contents in one message. */
const CONTENTS_MAX = 500;
/** Messages with contents on their way. */
const MESSAGES_AT_ONCE = 4;
const ATTEMPTS = 4;
const AGAIN_AFTER_MS = 100;

interface Chunk {
  readonly batch_id: number;
  readonly content: Uint8Array;
}
interface Chunks {
  readonly batch_id: number;
  readonly content: readonly Uint8Array[];
}
const candidOfChunk = messageOf(record<Chunk>({ batch_id: nat, content: blob }));
const candidOfChunks = messageOf(record<Chunks>({ batch_id: nat, content: vec(blob) }));

export class FolderDeployments implements AssetFolders {
  readonly #folders = new Map<string, AssetFolder>();
  /** The deployment that is under way, by the actor's name. */
  readonly #turns = new Map<string, Promise<unknown>>();

  async check(source: AssetSource): Promise<void> {
    await unlessChanging(() => this.#wanted(source));
  }

  async foldersOf({ folder }: AssetSource): Promise<readonly string[]> {
    // Also the folder's own name: it may be replaced, or come later.
    return [folder, ...foldersIn(this.#folder(folder)).map((path) => `${path}/`)];
  }

  async deploy(source: AssetSource, actor: AssetActor): Promise<AssetChanges> {
    const before = this.#turns.get(actor.name) ?? Promise.resolve();
    const turn = before.then(() => unlessChanging(() => this.#deploy(source, actor)));
    const settled = turn.catch(() => undefined);
    this.#turns.set(actor.name, settled);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(actor.name) === settled) this.#turns.delete(actor.name);
    }
  }

  #folder(path: string): AssetFolder {
    const folder = this.#folders.get(path) ?? new AssetFolder(path);
    this.#folders.set(path, folder);
    return folder;
  }

  #wanted({ folder, isSite }: AssetSource): readonly WantedFile[] {
    return wantedFiles(this.#folder(folder).read(), isSite);
  }

  async #deploy(source: AssetSource, actor: AssetActor): Promise<AssetChanges> {
    const missing = METHODS_NEEDED.filter((method) => !actor.has(method));
    if (missing.length > 0)
      throw refused(
        actor,
        `it has no method ${missing.join(', ')}: files are put into actors with the interface of the asset canister; ` +
          'without "main" and "wasm" the server brings such an actor',
      );
    const uploads = new Uploads(actor);
    const plan = planOf(this.#wanted(source), await uploads.list());
    if (plan.files === 0) return { files: 0, bytes: 0 };
    const bytes = await uploads.send(plan);
    return { files: plan.files, bytes };
  }
}

/** Messages to one actor. */
class Uploads {
  readonly #actor: AssetActor;

  constructor(actor: AssetActor) {
    this.#actor = actor;
  }

  async list(): Promise<readonly ListedFile[]> {
    const files = new Map<string, ListedFile>();
    for (;;) {
      const part = await this.#call<readonly ListedFile[]>('query', 'list', {
        start: files.size,
        length: LISTED_AT_ONCE,
      });
      const before = files.size;
      for (const file of part) files.set(file.key, file);
      // An actor that knows no parts answers with all.
      if (part.length !== LISTED_AT_ONCE || files.size === before) return [...files.values()];
    }
  }

  /** Sends the contents and commits; the number of bytes. */
  async send({ operations, contents }: AssetPlan): Promise<number> {
    const { batch_id: batch } = await this.#call<{ readonly batch_id: number }>('update', 'create_batch', {});
    const ids = contents.map((): number[] => []);
    let bytes = 0;
    let failure: { readonly error: unknown } | undefined;
    const sending = new Set<Promise<void>>();
    for (const { pieces, size } of messagesOf(contents)) {
      const sent = this.#chunks(batch, pieces, ids)
        .catch((error: unknown) => void (failure ??= { error }))
        .finally(() => sending.delete(sent));
      sending.add(sent);
      bytes += size;
      if (sending.size >= MESSAGES_AT_ONCE) await Promise.race(sending);
      if (failure !== undefined) break;
    }
    await Promise.all(sending);
    if (failure !== undefined) throw failure.error;
    const settings = contents.map(({ key, content: { encoding, sha256 } }, index) => ({
      SetAssetContent: { key, content_encoding: encoding, chunk_ids: ids[index] ?? [], sha256 },
    }));
    await this.#call('update', 'commit_batch', { batch_id: batch, operations: [...operations, ...settings] });
    return bytes;
  }

  /** Sends pieces in one message, if the actor takes several in one, and notes their ids. */
  async #chunks(batch: number, pieces: readonly Piece[], ids: readonly number[][]): Promise<void> {
    const note = ({ of, at }: Piece, id: number | undefined): void => {
      const place = ids[of];
      if (id === undefined || place === undefined)
        throw refused(this.#actor, 'create_chunks answered with too few ids');
      place[at] = id;
    };
    if (!this.#actor.has(SEVERAL_CHUNKS)) {
      for (const piece of pieces) {
        const argument = candidOfChunk({ batch_id: batch, content: piece.bytes });
        note(piece, (await this.#answer<{ readonly chunk_id: number }>('update', 'create_chunk', argument)).chunk_id);
      }
      return;
    }
    const argument = candidOfChunks({ batch_id: batch, content: pieces.map(({ bytes }) => bytes) });
    const answer = await this.#answer<{ readonly chunk_ids: readonly number[] }>('update', 'create_chunks', argument);
    for (const [index, piece] of pieces.entries()) note(piece, answer.chunk_ids[index]);
  }

  async #call<Result>(kind: CallKind, method: string, argument: unknown): Promise<Result> {
    const tuple = INTERFACE.methods.get(method)?.args;
    const encoded = tuple?.encode(Buffer.from(JSON.stringify([argument])), { lossless: false });
    return await this.#answer(kind, method, encoded ?? new Uint8Array());
  }

  async #answer<Result>(kind: CallKind, method: string, argument: Uint8Array): Promise<Result> {
    const outcome = await this.#actor.call(kind, method, argument);
    if (outcome.kind !== 'reply') throw refused(this.#actor, `${method}: ${outcome.message}`);
    try {
      const json = INTERFACE.methods.get(method)?.results.decode(outcome.data, { lossless: false });
      const [result] = JSON.parse(Buffer.from(json ?? []).toString()) as [Result];
      return result;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      throw refused(this.#actor, `the answer of ${method} is not the asset canister's: ${error.message}`, error);
    }
  }
}

/** A part of the content with the number `of`: its part number `at`. */
interface Piece {
  readonly of: number;
  readonly at: number;
  readonly bytes: Uint8Array;
}

interface ChunksMessage {
  readonly pieces: readonly Piece[];
  readonly size: number;
}

/** Yields the pieces of all contents, as many in a message as fit into one. */
function* messagesOf(contents: readonly ContentToSend[]): Generator<ChunksMessage> {
  let pieces: Piece[] = [];
  let size = 0;
  for (const [of, { content }] of contents.entries()) {
    let at = 0;
    for (const bytes of content.from instanceof Uint8Array ? [content.from] : piecesOf(content.from)) {
      if (pieces.length > 0 && (size + bytes.length > PIECE_BYTES || pieces.length === CONTENTS_MAX)) {
        yield { pieces, size };
        pieces = [];
        size = 0;
      }
      pieces.push({ of, at, bytes });
      size += bytes.length;
      at++;
    }
  }
  if (pieces.length > 0) yield { pieces, size };
}

/** Returns the folders in a folder, this one first; none if it cannot be read. */
function foldersIn(folder: AssetFolder): readonly string[] {
  try {
    return folder.folders();
  } catch {
    return [];
  }
}

/** Reads anew what has changed meanwhile: whoever builds a site writes many files, and not all at once. */
async function unlessChanging<Result>(work: () => Result | Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof FileChanged)) throw error;
      if (attempt === ATTEMPTS) throw folderFault(`${error.message}: deploy when it is written`, error);
      await sleep(AGAIN_AFTER_MS);
    }
  }
}

function refused({ name }: AssetActor, reason: string, cause?: unknown): ServerError {
  return new ServerError('invalid', 'assets-refused', `${name} does not take the files of its folder: ${reason}`, {
    cause,
  });
}
