/** Conversions between the JSON forms of `candid-types.ts` and the program's own values. */
import { principalFromText, principalToText, shownCaller } from '../ic/index.ts';
import type { BlobJson, NatJson, OneOf, PrincipalJson, GlobalJson } from './candid-types.ts';
import type { GlobalValue } from './backend.ts';

export function toBytes(blob: BlobJson): Uint8Array {
  const decoded = Buffer.from(blob, 'base64');
  // Node decodes short ones into a buffer that it shares among many.
  return decoded.length < 4096 ? Uint8Array.from(decoded) : decoded;
}

export function toBlob(bytes: Uint8Array): BlobJson {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

export const toPrincipal = (text: PrincipalJson): Uint8Array => principalFromText(text);
export const toPrincipalText = (bytes: Uint8Array): PrincipalJson => principalToText(shownCaller(bytes));
export const toNat = (value: NatJson): bigint => BigInt(value);
export const fromNat = (value: bigint): NatJson => value.toString();

/** Returns the one key of a variant. */
export function tagOf<T extends object>(variant: OneOf<T>): keyof T {
  const [tag] = Object.keys(variant);
  if (tag === undefined) throw new Error('a variant without a tag');
  return tag as keyof T;
}

const BITS = new DataView(new ArrayBuffer(8));

export function toGlobal(value: GlobalJson): GlobalValue {
  if (value.i32 !== undefined) return { type: 'i32', bits: BigInt.asUintN(32, BigInt(value.i32)) };
  if (value.i64 !== undefined) return { type: 'i64', bits: BigInt.asUintN(64, BigInt(value.i64)) };
  if (value.v128 !== undefined) return { type: 'v128', bits: BigInt.asUintN(128, BigInt(value.v128)) };
  if (value.f32 !== undefined) {
    BITS.setFloat32(0, Number(value.f32));
    return { type: 'f32', bits: BigInt(BITS.getUint32(0)) };
  }
  BITS.setFloat64(0, Number(value.f64));
  return { type: 'f64', bits: BITS.getBigUint64(0) };
}

export function fromGlobal({ type, bits }: GlobalValue): GlobalJson {
  switch (type) {
    case 'i32':
      return { i32: Number(BigInt.asIntN(32, bits)) };
    case 'i64':
      return { i64: BigInt.asIntN(64, bits).toString() };
    case 'v128':
      return { v128: bits.toString() };
    case 'f32':
      BITS.setUint32(0, Number(bits));
      return { f32: floatJson(BITS.getFloat32(0)) };
    case 'f64':
      BITS.setBigUint64(0, bits);
      return { f64: floatJson(BITS.getFloat64(0)) };
  }
}

/** JSON cannot express all values: a NaN's payload and a zero's sign are lost. */
function floatJson(value: number): number | string {
  return Number.isFinite(value) ? value : String(value);
}
