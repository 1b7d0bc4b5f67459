import assert from 'node:assert/strict';
import { ServerError } from '../../../kernel/index.ts';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import type { TupleCodec } from '../../../subsystems/codec/index.ts';

export const codec = createCodec();

/** Returns the codec of one argument of a type written in .did; `definitions` go before it. */
export function codecOf(type: string, definitions = ''): TupleCodec {
  return codecOfTuple(`(${type})`, definitions);
}

export function codecOfTuple(types: string, definitions = ''): TupleCodec {
  const method = codec.parseInterface(`${definitions} service : { m : ${types} -> () }`).methods.get('m');
  assert.ok(method !== undefined);
  return method.args;
}

/** Converts one JSON value to Candid and back; `json` without the array around it. */
export function roundTrip(tuple: TupleCodec, json: string, lossless = false): string {
  return fromCandid(tuple, toCandid(tuple, `[${json}]`, lossless), lossless).slice(1, -1);
}

export function toCandid(tuple: TupleCodec, json: string, lossless = false): Uint8Array {
  return tuple.encode(Buffer.from(json), { lossless });
}

export function fromCandid(tuple: TupleCodec, candid: Uint8Array, lossless = false): string {
  return Buffer.from(tuple.decode(candid, { lossless })).toString('utf8');
}

export function hex(source: Uint8Array): string {
  return Buffer.from(source).toString('hex');
}

export function bytes(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text.replaceAll(' ', ''), 'hex'));
}

/** Asserts that `run` throws a ServerError of kind `invalid` whose message matches. */
export function refuses(run: () => unknown, message: string | RegExp, code?: string): void {
  assert.throws(run, (error) => {
    assert.ok(error instanceof ServerError, `${String(error)} is no ServerError`);
    assert.equal(error.kind, 'invalid');
    if (typeof message === 'string') assert.equal(error.message, message);
    else assert.match(error.message, message);
    if (code !== undefined) assert.equal(error.code, code);
    return true;
  });
}
