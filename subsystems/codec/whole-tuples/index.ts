/**
 * The codec for a thread that has work of its own: `encode` and `decode` convert there and at once, and no other thread
 * is started.
 */
import { createCodec } from '../codec.ts';
import type { CandidInterface, TupleCodec } from '../index.ts';

/** Parses .did text that the program itself contains. Throws ServerError `bad-interface` with line and column. */
export function parseOwnInterface(did: string): CandidInterface<TupleCodec> {
  return createCodec().parseInterface(did);
}
