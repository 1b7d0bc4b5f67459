import { unlessAborted } from '../../../kernel/index.ts';
import type { ArgumentOf, BlobJson, NatJson, RangeJson, ResultOf, SnapshotJson } from '../candid-types.ts';
import { fromGlobal, fromNat, tagOf, toBlob, toBytes, toGlobal, toNat, toPrincipalText } from '../candid-values.ts';
import type { CanisterRecordExtras } from '../canister-records.ts';
import { bytesOfChunks } from '../chunk-store.ts';
import type { HostedCanister } from '../backend.ts';
import type { Call, MethodContext, Methods } from '../method-context.ts';
import { REFUSE, refusalOf } from '../refusal.ts';
import { mayView } from '../settings.ts';
import { type SnapshotContent, TakenSnapshot, UploadedSnapshot } from '../snapshot.ts';
import { WASM_PAGE_BYTES, hexOf, sameBytes } from '../../ic/index.ts';
import { ownerOfSnapshot, type Snapshot, type UploadedData } from '../snapshot-store.ts';
import { hashOf } from './settings-methods.ts';
import { uninstall } from './code-methods.ts';

/** Bytes that one call reads or writes; a response has at most 2 MiB. */
const SLICE_BYTES_MAX = 2_000_000;
const MODULE_BYTES_MAX = 100 << 20;
const STABLE_BYTES_MAX = 500 * 2 ** 30;
const CERTIFIED_DATA_BYTES_MAX = 32;
const GLOBALS_MAX = 1000;
/** The operator may do over HTTP what a controller may do by a call. */
const OPERATOR_TOO = { admin: true };

/** Methods that take, load, read and upload snapshots. */
export function snapshotMethods(
  context: MethodContext,
): Pick<
  Methods,
  | 'take_canister_snapshot'
  | 'load_canister_snapshot'
  | 'list_canister_snapshots'
  | 'delete_canister_snapshot'
  | 'read_canister_snapshot_metadata'
  | 'read_canister_snapshot_data'
  | 'upload_canister_snapshot_metadata'
  | 'upload_canister_snapshot_data'
> {
  return {
    take_canister_snapshot(argument, call) {
      return context.change(call, argument.canister_id, OPERATOR_TOO, async (canister, record, deletion) => {
        // Checked first: a wrong version must not be found only after the snapshot was taken.
        context.originOf(call, argument.sender_canister_version);
        return snapshotJson(await take(context, call, { canister, record, argument, deletion }));
      });
    },

    load_canister_snapshot({ canister_id: id, snapshot_id: snapshotId, sender_canister_version: version }, call) {
      return context.change(call, id, OPERATOR_TOO, (canister, record, deletion) =>
        load(context, call, { canister, record, snapshotId: toBytes(snapshotId), version, deletion }),
      );
    },

    list_canister_snapshots({ canister_id: id }, call) {
      return visible(context, call, id).snapshots.list.map(snapshotJson);
    },

    delete_canister_snapshot({ canister_id: id, snapshot_id: snapshotId }, call) {
      return context.change(call, id, OPERATOR_TOO, async (_canister, { snapshots }) => {
        snapshots.remove(snapshotIn(snapshots, snapshotId));
      });
    },

    async read_canister_snapshot_metadata({ canister_id: id, snapshot_id: snapshotId }, call) {
      const { snapshots } = visible(context, call, id);
      const snapshot = snapshotIn(snapshots, snapshotId);
      return metadataJson(snapshot, await snapshot.content());
    },

    async read_canister_snapshot_data({ canister_id: id, snapshot_id: snapshotId, kind }, call) {
      const { snapshots } = visible(context, call, id);
      const content = await snapshotIn(snapshots, snapshotId).content();
      return { chunk: toBlob(readData(content, kind)) };
    },

    upload_canister_snapshot_metadata(argument, call) {
      return context.change(call, argument.canister_id, {}, async (canister, { snapshots }, deletion) => {
        const replaced = replacedBy(argument.replace_snapshot, snapshots);
        snapshots.expectRoom(replaced);
        const draft = await snapshots.draft(createUpload(context, argument, canister.version), deletion);
        return { snapshot_id: toBlob(snapshots.add(draft, context.nowNs(), replaced).id) };
      });
    },

    upload_canister_snapshot_data({ canister_id: id, snapshot_id: snapshotId, kind, chunk }, call) {
      return context.change(call, id, {}, async (_canister, { snapshots }) => {
        const snapshot = snapshotIn(snapshots, snapshotId);
        const content = expectUploaded(await snapshot.content(), snapshotId);
        snapshots.upload(snapshot, content, uploadedData(content, kind, toBytes(chunk)));
      });
    },
  };
}

/** Takes a snapshot, and removes the code if requested: both become visible at the same moment. */
async function take(
  context: MethodContext,
  call: Call,
  from: {
    readonly canister: HostedCanister;
    readonly record: CanisterRecordExtras;
    readonly argument: ArgumentOf<'take_canister_snapshot'>;
    readonly deletion: AbortSignal;
  },
): Promise<Snapshot> {
  const { canister, record, argument, deletion } = from;
  const { snapshots } = record;
  // Other changes of the snapshots wait until this one is done.
  const replaced = replacedBy(argument.replace_snapshot, snapshots);
  snapshots.expectRoom(replaced);
  const content = await capture(context, canister, record);
  const takenAtNs = context.nowNs();
  context.records.stored.take(content.bytes);
  const draft = await snapshots.draft(content, deletion);
  try {
    context.expectPresent(canister);
    if (argument.uninstall_code === true) await uninstall(context, call, canister, argument.sender_canister_version);
  } catch (error) {
    snapshots.discard(draft);
    throw error;
  }
  return snapshots.add(draft, takenAtNs, replaced);
}

async function capture(
  context: MethodContext,
  canister: HostedCanister,
  record: CanisterRecordExtras,
): Promise<TakenSnapshot> {
  if (canister.code === undefined) throw REFUSE.empty(toPrincipalText(canister.id));
  const { host } = context;
  // The copy needs room, so room is reserved first.
  const estimate = canister.heapBytes + canister.code.wasm.length + record.chunkStore.bytes;
  context.records.stored.take(estimate);
  try {
    await record.chunkStore.load();
    context.expectPresent(canister);
    const { code, version, timerNs, lowMemoryHook } = canister;
    const image = await host.capture(canister);
    context.expectPresent(canister);
    const captured = {
      wasm: code.wasm,
      heap: image.heap,
      stable: image.stable,
      stableBytes: image.stablePages * WASM_PAGE_BYTES,
      globals: host.readGlobals(image),
      certifiedData: image.certifiedData,
      chunks: new Map(record.chunkStore.chunks),
      version,
      timerNs,
      lowMemoryHook,
    };
    return new TakenSnapshot(captured, { image, wasm: code.wasm, timerNs: undefined, lowMemoryHook: undefined });
  } finally {
    context.records.stored.give(estimate);
  }
}

async function load(
  context: MethodContext,
  call: Call,
  to: {
    readonly canister: HostedCanister;
    readonly record: CanisterRecordExtras;
    readonly snapshotId: Uint8Array;
    readonly version: NatJson | null;
    readonly deletion: AbortSignal;
  },
): Promise<void> {
  const { canister, record, snapshotId, deletion } = to;
  const origin = context.originOf(call, to.version);
  const owner = context.host.find(ownerOfSnapshot(snapshotId));
  const find = () => (owner === undefined ? undefined : context.recordOf(owner).snapshots.find(snapshotId));
  const snapshot = expectSnapshot(find(), toBlob(snapshotId));
  if (owner !== undefined) context.expectControl(call, owner, OPERATOR_TOO);
  const content = await unlessAborted(deletion, snapshot.content());
  // Another canister's snapshot may be deleted during the read, which leaves it incomplete.
  expectSnapshot(find(), toBlob(snapshotId));
  context.expectPresent(canister);
  const chunks = new Map(content.chunks);
  // Room is reserved first, because the canister cannot be changed back afterwards.
  const chunkBytes = bytesOfChunks(chunks);
  context.records.stored.take(chunkBytes);
  try {
    const state = await unlessAborted(deletion, content.prepare(context.host));
    context.expectPresent(canister);
    await context.host.restore(canister, state);
  } catch (error) {
    throw refusalOf(error, 4, 'IC0408');
  } finally {
    context.records.stored.give(chunkBytes);
  }
  context.expectPresent(canister);
  record.chunkStore.replace(chunks);
  context.enter(canister, origin, {
    kind: 'loadSnapshot',
    from: owner === undefined || sameBytes(owner.id, canister.id) ? undefined : owner.id,
    snapshotId: snapshot.id,
    version: BigInt(content.version),
    takenAtNs: snapshot.takenAtNs,
    isUploaded: content.source === 'uploaded',
  });
}

function createUpload(
  context: MethodContext,
  argument: ArgumentOf<'upload_canister_snapshot_metadata'>,
  version: number,
): UploadedSnapshot {
  const size = (what: string, json: NatJson, unit: number, largest: number): number => {
    const bytes = toNat(json);
    if (bytes > BigInt(largest)) throw REFUSE.badArgument(`${what} is ${bytes}: at most ${largest} is possible`);
    if (bytes % BigInt(unit) !== 0n) throw REFUSE.badArgument(`${what} is ${bytes}: it must be a multiple of ${unit}`);
    return Number(bytes);
  };
  const wasmBytes = size('wasm_module_size', argument.wasm_module_size, 1, MODULE_BYTES_MAX);
  const heapBytes = size('wasm_memory_size', argument.wasm_memory_size, WASM_PAGE_BYTES, Number.MAX_SAFE_INTEGER);
  const stableBytes = size('stable_memory_size', argument.stable_memory_size, WASM_PAGE_BYTES, STABLE_BYTES_MAX);
  const certifiedData = toBytes(argument.certified_data);
  if (certifiedData.length > CERTIFIED_DATA_BYTES_MAX)
    throw REFUSE.badArgument(
      `certified_data has ${certifiedData.length} bytes: at most ${CERTIFIED_DATA_BYTES_MAX} are allowed`,
    );
  if (argument.globals.length > GLOBALS_MAX)
    throw REFUSE.badArgument(`there are ${argument.globals.length} globals: at most ${GLOBALS_MAX} are allowed`);
  const timer = argument.global_timer;
  const hook = argument.on_low_wasm_memory_hook_status;
  const { stored } = context.records;
  stored.take(wasmBytes + heapBytes);
  try {
    return new UploadedSnapshot(
      {
        wasmBytes,
        heapBytes,
        stableBytes,
        globals: argument.globals.map(toGlobal),
        certifiedData,
        timerNs: timer === null ? undefined : timer.active === undefined ? 0n : toNat(timer.active),
        lowMemoryHook: hook === null ? undefined : tagOf(hook),
        version,
      },
      stored,
    );
  } catch (error) {
    stored.give(wasmBytes + heapBytes);
    // The engine refuses to allocate an array of this length.
    if (error instanceof RangeError) throw REFUSE.full(`there is no room for a heap of ${heapBytes} bytes`);
    throw error;
  }
}

/** Returns the data of a kind that a call asks for. */
function readData(content: SnapshotContent, kind: ArgumentOf<'read_canister_snapshot_data'>['kind']): Uint8Array {
  if (kind.wasm_chunk !== undefined) {
    const hash = hexOf(toBytes(kind.wasm_chunk.hash));
    const chunk = content.chunks.get(hash);
    if (chunk === undefined) throw REFUSE.badArgument(`the snapshot has no chunk ${hash.slice(0, 64)}`);
    return chunk;
  }
  if (kind.stable_memory !== undefined) {
    const { offset, size } = sliceOf('stable memory', kind.stable_memory, content.stableBytes);
    return content.readStable(offset, size);
  }
  const [what, range, bytes] =
    kind.wasm_module === undefined
      ? (['heap', kind.wasm_memory, content.heap] as const)
      : (['module', kind.wasm_module, content.wasm] as const);
  if (range === undefined) throw new Error(`no such kind of data: ${tagOf(kind)}`);
  const { offset, size } = sliceOf(what, range, bytes.length);
  return bytes.subarray(offset, offset + size);
}

/** Returns the bytes of a call with their place in the snapshot; refuses a place beyond the end of its part. */
function uploadedData(
  content: UploadedSnapshot,
  kind: ArgumentOf<'upload_canister_snapshot_data'>['kind'],
  bytes: Uint8Array,
): UploadedData {
  const place = (what: string, offset: NatJson, length: number): number =>
    sliceOf(what, { offset, size: bytes.length }, length).offset;
  if (kind.wasm_module !== undefined)
    return { part: 'w', offset: place('module', kind.wasm_module.offset, content.wasmBytes), bytes };
  if (kind.wasm_memory !== undefined)
    return { part: 'h', offset: place('heap', kind.wasm_memory.offset, content.heapBytes), bytes };
  if (kind.stable_memory !== undefined)
    return { part: 't', offset: place('stable memory', kind.stable_memory.offset, content.stableBytes), bytes };
  return { part: 'chunk', bytes };
}

/** Returns the records of the canister if the sender may see its snapshots. */
function visible(context: MethodContext, call: Call, id: string): CanisterRecordExtras {
  const canister = context.find(id);
  const record = context.recordOf(canister);
  if (!mayView(record.settings.snapshotVisibility, call.sender)) context.expectControl(call, canister, OPERATOR_TOO);
  return record;
}

function replacedBy(id: BlobJson | null, snapshots: CanisterRecordExtras['snapshots']): Snapshot | undefined {
  return id === null ? undefined : snapshotIn(snapshots, id);
}

function snapshotIn(snapshots: CanisterRecordExtras['snapshots'], id: BlobJson): Snapshot {
  return expectSnapshot(snapshots.find(toBytes(id)), id);
}

function expectSnapshot(snapshot: Snapshot | undefined, id: BlobJson): Snapshot {
  if (snapshot === undefined) throw REFUSE.badArgument(`there is no snapshot ${shownId(id)}`);
  return snapshot;
}

function expectUploaded(content: SnapshotContent, id: BlobJson): UploadedSnapshot {
  if (content instanceof UploadedSnapshot) return content;
  throw REFUSE.badArgument(`snapshot ${shownId(id)} was taken from the canister: nothing can be added to it`);
}

function shownId(id: BlobJson): string {
  const hex = hexOf(toBytes(id.slice(0, 64)));
  return id.length > 64 ? `${hex}…` : hex;
}

function sliceOf(what: string, { offset, size }: RangeJson, length: number): { offset: number; size: number } {
  const from = toNat(offset);
  const bytes = toNat(size);
  if (bytes > BigInt(SLICE_BYTES_MAX))
    throw REFUSE.badArgument(`the call is about ${bytes} bytes at once: at most ${SLICE_BYTES_MAX} are allowed`);
  if (from + bytes > BigInt(length))
    throw REFUSE.badArgument(`the ${what} has ${length} bytes: ${bytes} bytes from ${from} on lie beyond its end`);
  return { offset: Number(from), size: Number(bytes) };
}

function snapshotJson({ id, takenAtNs, description }: Snapshot): SnapshotJson {
  return { id: toBlob(id), taken_at_timestamp: fromNat(takenAtNs), total_size: description.bytes };
}

function metadataJson({ takenAtNs }: Snapshot, content: SnapshotContent): ResultOf<'read_canister_snapshot_metadata'> {
  const { timerNs, lowMemoryHook } = content;
  return {
    source: content.source === 'uploaded' ? { metadata_upload: null } : { taken_from_canister: null },
    taken_at_timestamp: fromNat(takenAtNs),
    wasm_module_size: content.wasmBytes,
    globals: content.globals.map(fromGlobal),
    wasm_memory_size: content.heapBytes,
    stable_memory_size: content.stableBytes,
    wasm_chunk_store: content.chunkHashes.map((hash) => ({ hash: toBlob(hashOf(hash)) })),
    canister_version: content.version,
    certified_data: toBlob(content.certifiedData),
    global_timer: timerNs === undefined ? null : timerNs === 0n ? { inactive: null } : { active: fromNat(timerNs) },
    on_low_wasm_memory_hook_status: lowMemoryHook === undefined ? null : { [lowMemoryHook]: null },
  };
}
