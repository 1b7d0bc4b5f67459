import { flushCompileCache } from 'node:module';
import { serveJobs } from '../threads/index.ts';
import type { CodecRequest, CodecResult, CodecTarget } from './codec-job.ts';
import { createCodec } from './codec.ts';
import { parseDid } from './did-parser.ts';
import { candidTextOf } from './encode-value-text.ts';
import { typeTableBytes } from './description/type-table.ts';
import { flattenInterface } from './flat-interface.ts';
import type { CandidInterface, TupleCodec } from './index.ts';

/* The thread for large bodies and large interfaces. It keeps the latest interfaces that it has compiled. */

// Saves compiled code for threads of later processes (config/code-cache.ts).
flushCompileCache();

const KEPT_INTERFACES_MAX = 32;
/** The size of the largest body that is converted; the thread's heap limits how much of it can be held. */
const TEXT_CHARACTERS_MAX = 64 * 1024 * 1024;

const codec = createCodec();
const interfaces = new Map<string, CandidInterface<TupleCodec>>();

function interfaceOf(did: string, candidArgs: string | undefined): CandidInterface<TupleCodec> {
  const key = JSON.stringify([did, candidArgs]);
  const parsed = interfaces.get(key) ?? codec.parseInterface(did, candidArgs);
  // Set again in any case, so that the map is in order of use.
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

serveJobs((request: CodecRequest): CodecResult => {
  if ('described' in request) return typeTableBytes(request.described, request.initText);
  if ('did' in request) {
    const { did, candidArgs, partsMax } = request;
    return flattenInterface(parseDid(did, candidArgs, { partsMax }));
  }
  const { direction, bytes, isLossless, target } = request;
  const tuple = tupleOf(target);
  if (direction === 'encodeText') return tuple.encodeText(candidTextOf(bytes), TEXT_CHARACTERS_MAX);
  return tuple[direction](bytes, { lossless: isLossless });
});
