import { copyBytes } from '../../../bytes/index.ts';
import { HostTrap } from '../fault.ts';
import { contractViolation, type CurrentExecution } from './current-execution.ts';

/** Most bytes of an answer, reply or reject text: what one message between canisters may carry, and a query's answer. */
export const REPLY_BYTES_MAX = 2 * 1024 * 1024;
export const QUERY_REPLY_BYTES_MAX = 3 * 1024 * 1024;

const STRICT_TEXT = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Answering the call. The answer counts only if the execution returns. */
export function respondingImports(x: CurrentExecution) {
  return {
    msg_reply_data_append: (source: number, size: number) => {
      checkOpen(x, 'msg_reply_data_append');
      const length = x.replyLength + size;
      checkSize(x, 'msg_reply_data_append', length);
      const memory = x.memory;
      const heap = memory.heap();
      x.checkHeapRange('msg_reply_data_append', heap, source, size);
      memory.charge(size);
      if (length > x.reply.length) growReply(x, length);
      copyBytes(heap, source, x.reply, x.replyLength, size);
      x.replyLength = length;
    },
    msg_reply: () => {
      checkOpen(x, 'msg_reply');
      x.answer = 'reply';
    },
    msg_reject: (source: number, size: number) => {
      checkOpen(x, 'msg_reject');
      checkSize(x, 'msg_reject', size);
      const bytes = x.copyIn('msg_reject', source, size, size);
      x.rejectText = decodeStrictly('msg_reject', bytes);
      x.answer = 'reject';
    },
  };
}

/** UTF-8 text of an import's argument; anything else traps. */
export function decodeStrictly(name: string, bytes: Uint8Array): string {
  try {
    return STRICT_TEXT.decode(bytes);
  } catch {
    throw new HostTrap(`ic0.${name}: the ${bytes.length} bytes of text are not valid UTF-8`);
  }
}

function checkOpen(x: CurrentExecution, name: string): void {
  if (x.answer !== 'none') throw contractViolation(`ic0.${name}: the call is already answered`);
  if (!x.context.canAnswer)
    throw contractViolation(`ic0.${name}: the call is already answered, or was none that wants an answer`);
}

function checkSize(x: CurrentExecution, name: string, size: number): void {
  const sizeMax = x.isReplicated ? REPLY_BYTES_MAX : QUERY_REPLY_BYTES_MAX;
  if (size > sizeMax)
    throw new HostTrap(`ic0.${name}: application payload size (${size}) cannot be larger than ${sizeMax}.`);
}

function growReply(x: CurrentExecution, length: number): void {
  const larger = new Uint8Array(Math.min(Math.max(length, x.reply.length * 2), QUERY_REPLY_BYTES_MAX));
  larger.set(x.reply.subarray(0, x.replyLength));
  x.reply = larger;
}
