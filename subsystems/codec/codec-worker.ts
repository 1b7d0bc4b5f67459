import { flushCompileCache } from 'node:module';
import { parentPort } from 'node:worker_threads';
import { ServerError } from '../../kernel/index.ts';
import type { CodecRequest, CodecResponse, CodecTarget } from './codec-job.ts';
import { createCodec } from './codec.ts';
import { candidTextOf } from './encode-value-text.ts';
import type { CandidInterface, TupleCodec } from './index.ts';

/*
 * The thread for large bodies. It keeps the interfaces that it has compiled, the latest ones.
 */

// For threads of later processes (config/code-cache.ts).
flushCompileCache();

const KEPT_INTERFACES_MAX = 32;
/** As large as the largest body that is converted; how much of it the thread's heap holds depends on what it says. */
const TEXT_CHARACTERS_MAX = 64 * 1024 * 1024;

const codec = createCodec();
const interfaces = new Map<string, CandidInterface>();

function interfaceOf(did: string, candidArgs: string | undefined): CandidInterface {
  const key = JSON.stringify([did, candidArgs]);
  const known = interfaces.get(key);
  const parsed = known ?? codec.parseInterface(did, candidArgs);
  // Set again in any case, so that the map's order is the order of use.
  interfaces.delete(key);
  interfaces.set(key, parsed);
  for (const oldest of interfaces.keys()) {
    if (interfaces.size <= KEPT_INTERFACES_MAX) break;
    interfaces.delete(oldest);
  }
  return parsed;
}

function tupleOf(target: CodecTarget): TupleCodec {
  if (target.kind === 'untyped') return codec.untyped;
  const parsed = interfaceOf(target.did, target.candidArgs);
  const tuple = target.method === undefined ? parsed.initArgs : parsed.methods.get(target.method)?.[target.part];
  if (tuple === undefined) throw new Error(`the interface has no ${target.method ?? 'init arguments'}`);
  return tuple;
}

function answer(request: CodecRequest): CodecResponse {
  try {
    const { direction, bytes, isLossless, target } = request;
    const tuple = tupleOf(target);
    if (direction === 'encodeText') return { bytes: tuple.encodeText(candidTextOf(bytes), TEXT_CHARACTERS_MAX) };
    return { bytes: tuple[direction](bytes, { lossless: isLossless }) };
  } catch (error) {
    if (error instanceof ServerError) return { code: error.code, message: error.message };
    return { bug: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

parentPort?.on('message', (request: CodecRequest) => {
  const response = answer(request);
  const transfer = 'bytes' in response && response.bytes.buffer instanceof ArrayBuffer ? [response.bytes.buffer] : [];
  parentPort?.postMessage(response, transfer);
});
