/** Executor thread, within a message: the answer. Touches the effects of the execution alone. */
import { copyBytes } from '../../../bytes/index.ts';
import { HostTrap } from '../fault.ts';
import { contractViolation, type CurrentExecution } from './current-execution.ts';

/**
 * Most bytes of an answer, reply or reject text: the limits of a message between canisters, and of a query's answer.
 */
export const REPLY_BYTES_MAX = 2 * 1024 * 1024;
export const QUERY_REPLY_BYTES_MAX = 3 * 1024 * 1024;

const STRICT_TEXT = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Imports for answering the call. The answer counts only if the execution returns. */
export function respondingImports(execution: CurrentExecution) {
  return {
    msg_reply_data_append: (source: number, size: number) => {
      checkOpen(execution, 'msg_reply_data_append');
      const length = execution.replyLength + size;
      checkSize(execution, 'msg_reply_data_append', length);
      const memory = execution.memory;
      const heap = memory.heap();
      execution.checkHeapRange('msg_reply_data_append', heap, source, size);
      memory.charge(size);
      execution.replyGrows(length);
      if (length > execution.reply.length) growReply(execution, length);
      copyBytes(heap, source, execution.reply, execution.replyLength, size);
      execution.replyLength = length;
    },
    msg_reply: () => {
      checkOpen(execution, 'msg_reply');
      execution.answer = 'reply';
    },
    msg_reject: (source: number, size: number) => {
      checkOpen(execution, 'msg_reject');
      checkSize(execution, 'msg_reject', size);
      const bytes = execution.copyIn('msg_reject', source, size, size);
      execution.rejectText = decodeStrictly('msg_reject', bytes);
      execution.answer = 'reject';
    },
  };
}

/** Returns an import's argument as UTF-8 text; other bytes trap. */
export function decodeStrictly(name: string, bytes: Uint8Array): string {
  try {
    return STRICT_TEXT.decode(bytes);
  } catch {
    throw new HostTrap(`ic0.${name}: the ${bytes.length} bytes of text are not valid UTF-8`);
  }
}

function checkOpen(execution: CurrentExecution, name: string): void {
  if (execution.answer !== 'none') throw contractViolation(`ic0.${name}: the call is already answered`);
  if (!execution.context.canAnswer)
    throw contractViolation(`ic0.${name}: the call is already answered, or was none that wants an answer`);
}

function checkSize(execution: CurrentExecution, name: string, size: number): void {
  const sizeMax = execution.isReplicated ? REPLY_BYTES_MAX : QUERY_REPLY_BYTES_MAX;
  if (size > sizeMax)
    throw new HostTrap(`ic0.${name}: application payload size (${size}) cannot be larger than ${sizeMax}.`);
}

function growReply(execution: CurrentExecution, length: number): void {
  const larger = new Uint8Array(Math.min(Math.max(length, execution.reply.length * 2), QUERY_REPLY_BYTES_MAX));
  larger.set(execution.reply.subarray(0, execution.replyLength));
  execution.reply = larger;
}
