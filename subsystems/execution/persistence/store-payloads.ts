/**
 * Stores large payloads of a message ahead of the unit that makes the message true: arguments of its calls to other
 * canisters, and its answer to another canister. All of them in one unit would hold up everybody's commits for seconds
 * (ADR 78).
 *
 *     payloads    rows of their own (storage/payload-rows.ts), piece by piece, each durable before the next is made
 *     step        carries the payloads and where they are stored (`storedAs`); the scheduler stores a reference
 *
 *     rest        what only the step's own unit can have: the text of a reject, and the argument, if the log or a note
 *                 gets it; such a message waits in the same line, with nothing to store
 *
 * The message has run, and nothing of it counts yet. If it is recalled, the rows go with it. Rows that a crash leaves
 * are deleted at the next start (scheduler/restore-calls.ts): no record refers to them.
 *
 * Executor thread; touches the canister whose message has run, while its gate is closed.
 */
import { ANSWER_INDEX, payloadKey, type PayloadRef, QUERY_INDEX } from '../../storage/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import type { Task } from '../../ic/index.ts';
import type { CanisterState } from '../engine/canister-state.ts';
import type { EngineRuntime, Running } from '../engine/engine-runtime.ts';
import { type Fault, LONG } from '../engine/fault.ts';
import type { CurrentExecution } from '../engine/system-api/index.ts';
import type { Pieces } from '../memory/pieces.ts';
import { payloadBytesMax } from './piece-sizes.ts';

/** Smaller payloads stay in their records: a row takes some bytes, and some time, of its own. */
const ROW_BYTES_MIN = 256;

/**
 * Returns true if the message that has run has to store payloads ahead. Asked after every message: the sums are there.
 */
export function hasLargePayloads({ execution, ahead, pieceSizes }: EngineRuntime): boolean {
  const bytesMax = payloadBytesMax(pieceSizes);
  const { callBytes, replyLength, rejectText } = execution;
  if (callBytes + replyLength + rejectText.length <= bytesMax) return false;
  if (ahead === undefined || !execution.keepsPayloads) return false;
  let bytes = keptReplyBytes(execution) + keptRejectBytes(execution);
  // The management canister's arguments are not stored.
  for (const { callee, payload } of execution.calls) if (callee.length > 0) bytes += payload.length;
  return bytes > bytesMax;
}

/** Returns true if the unit of the task's step has a large argument: it is not to be in one unit with others. */
export function carriesMuch({ ahead, pieceSizes }: EngineRuntime, { persistence }: CanisterState, task: Task): boolean {
  const bytes = argumentBytes(task);
  if (bytes <= payloadBytesMax(pieceSizes) || ahead === undefined || persistence?.isReplaying !== false) return false;
  return persistence.isLogged || ('context' in task && task.context.keepsArgument === true);
}

function argumentBytes(task: Task): number {
  if (task.kind === 'update') return task.argument.length;
  if (task.kind !== 'callback' || task.frame !== 0) return 0;
  const { response } = task;
  return response.kind === 'reply' ? response.data.length : response.message.length;
}

/** Returns `LONG` if this cannot be done here, or the message was recalled; then none of it is stored. */
export function* storePayloads(runtime: EngineRuntime, canister: CanisterState): Running<Fault | undefined> {
  if (!hasLargePayloads(runtime)) return undefined;
  const { ahead, changes, execution, storing } = runtime;
  if (ahead?.store === undefined) return LONG;
  const refs = new Map<number, PayloadRef>();
  const rows = recordRows(runtime, canister, refs);
  for (let isOver = false; !isOver;) {
    isOver = rows.next().done === true;
    if (!isOver && !changes.hasPiece) continue;
    const fault = yield storing;
    if (fault === undefined) continue;
    changes.withoutPayloads(refs.values());
    return fault;
  }
  execution.replyStoredAs = refs.get(ANSWER_INDEX);
  execution.calls = execution.calls.map((call, index) => {
    const storedAs = refs.get(index);
    return storedAs === undefined ? call : { ...call, storedAs };
  });
  return undefined;
}

/** Records rows one by one, and enters into `refs` where each payload is stored. */
function* recordRows(
  { changes, execution, pieceSizes }: EngineRuntime,
  { id, version: versionBefore }: CanisterState,
  refs: Map<number, PayloadRef>,
): Pieces {
  const isQuery = execution.mode === 'RQ';
  const version = isQuery ? (execution.context.number ?? 0) : versionBefore + 1;
  const pieceBytes = pieceSizes.slicePages * PAGE_BYTES;
  for (const { index, bytes } of payloadsOf(execution)) {
    for (let piece = 0; piece * pieceBytes < bytes.length; piece++) {
      const row = bytes.subarray(piece * pieceBytes, (piece + 1) * pieceBytes);
      const place = { version, index: isQuery ? QUERY_INDEX : index };
      changes.payload(payloadKey(id, { ...place, piece }), row);
      refs.set(index, payloadKey(id, { ...place, piece: piece + 1 }));
      yield;
    }
  }
}

interface Payload {
  readonly index: number;
  readonly bytes: Uint8Array;
}

function* payloadsOf(execution: CurrentExecution): Generator<Payload> {
  for (const [index, { callee, payload }] of execution.calls.entries())
    if (callee.length > 0 && payload.length >= ROW_BYTES_MIN) yield { index, bytes: payload };
  const replyBytes = keptReplyBytes(execution);
  if (replyBytes >= ROW_BYTES_MIN) yield { index: ANSWER_INDEX, bytes: execution.reply.subarray(0, replyBytes) };
}

/** Returns the bytes of the reply if it is stored. */
function keptReplyBytes({ answer, context, replyLength }: CurrentExecution): number {
  return answer === 'reply' && context.keepsAnswer === true ? replyLength : 0;
}

/** Returns the length of the reject's text if it is stored. */
function keptRejectBytes({ answer, context, rejectText }: CurrentExecution): number {
  return answer === 'reject' && context.keepsAnswer === true ? rejectText.length : 0;
}
