/**
 * A unit's operations by actor: those of each message, in order, with its note. Rows that do not belong to an actor's
 * state (queues, logs, answers, settings and histories of the management canister) are left out.
 */
import { applyWriteBatch, type Family, ID_BYTES, META, STATE_ROWS, type WriteBatchVisitor } from '../storage/index.ts';
import { idOfNote, NOTE_KEY } from './note.ts';

/** Operations of one message, or of a change that no message made. */
export interface UnitPart {
  note: Uint8Array | undefined;
  readonly operations: Uint8Array[];
}

interface ActorUnit {
  readonly id: Uint8Array;
  readonly parts: UnitPart[];
  isDeleted: boolean;
}

export interface SplitUnit {
  /** Actors by the hex of their ids. */
  readonly actors: ReadonlyMap<string, ActorUnit>;
  /** Modules that were stored, by their SHA-256 in hex. */
  readonly modules: ReadonlyMap<string, Uint8Array>;
}

const STATE_LETTERS: ReadonlySet<string> = new Set(STATE_ROWS);

/** An operation by its kind, family and key; of a patch the key is the id. */
interface Operation {
  kind: 'put' | 'delete' | 'clear' | 'patch' | undefined;
  family: Family;
  key: Uint8Array;
  value: Uint8Array;
}

const NONE = new Uint8Array(0);

/** Bytes are views of the unit. Throws ServerError `state-corrupt`. */
export function splitUnit(unit: Uint8Array): SplitUnit {
  const actors = new Map<string, ActorUnit>();
  const modules = new Map<string, Uint8Array>();
  const operation: Operation = { kind: undefined, family: 'meta', key: NONE, value: NONE };
  const visitor = noteOperations(operation);
  const actorOf = (id: Uint8Array): ActorUnit => {
    const hex = Buffer.from(id.buffer, id.byteOffset, id.length).toString('hex');
    let actor = actors.get(hex);
    if (actor === undefined) actors.set(hex, (actor = { id: Buffer.from(id), parts: [], isDeleted: false }));
    return actor;
  };
  for (let at = 0; at < unit.length;) {
    const from = at;
    operation.kind = undefined;
    at = applyWriteBatch(unit, visitor, from, 1);
    const { kind, family, key, value } = operation;
    if (kind === undefined) continue;
    if (family === 'module' && kind === 'put') modules.set(Buffer.from(key).toString('hex'), value);
    if (family === 'meta' && key.length === 1 && key[0] === NOTE_KEY[0]) {
      if (kind === 'put') openPart(actorOf(idOfNote(value)).parts).note = value;
      continue;
    }
    const id = ownerOf(operation);
    if (id === undefined) continue;
    const actor = actorOf(id);
    openPart(actor.parts).operations.push(unit.subarray(from, at));
    if (family === 'meta' && key[0] === META.identity.charCodeAt(0)) actor.isDeleted = kind === 'delete';
  }
  for (const { parts } of actors.values()) joinRest(parts);
  return { actors, modules };
}

function noteOperations(operation: Operation): WriteBatchVisitor {
  const noted =
    (kind: Operation['kind']) =>
    (family: Family, key: Uint8Array, value?: unknown): void =>
      void Object.assign(operation, { kind, family, key, value: value instanceof Uint8Array ? value : NONE });
  return { put: noted('put'), delete: noted('delete'), clear: noted('clear'), patch: noted('patch') };
}

/** Returns the part that is not ended by a note yet. */
function openPart(parts: UnitPart[]): UnitPart {
  const last = parts.at(-1);
  if (last !== undefined && last.note === undefined) return last;
  const part = { note: undefined, operations: [] };
  parts.push(part);
  return part;
}

/** Joins what follows the last note of a unit (numbers, which are stored once a unit) to that message. */
function joinRest(parts: UnitPart[]): void {
  const [message, rest] = parts.slice(-2);
  if (message?.note === undefined || rest === undefined || rest.note !== undefined) return;
  message.operations.push(...rest.operations);
  parts.pop();
}

function ownerOf({ kind, family, key }: Operation): Uint8Array | undefined {
  if (family === 'heap' || family === 'stable') {
    const id = Buffer.from(key.subarray(0, ID_BYTES));
    // The other copy of a memory has another last byte.
    id[ID_BYTES - 1] = (id[ID_BYTES - 1] ?? 0) & 0x7f;
    return id;
  }
  const isOwn = family === 'meta' && key.length === 1 + ID_BYTES && kind !== 'clear';
  return isOwn && STATE_LETTERS.has(String.fromCharCode(key[0] ?? 0)) ? key.subarray(1) : undefined;
}
