import type { ByteReader } from './bytes.ts';
import { signedLeb } from './bytes.ts';
import type { ConstantExpression } from './module.ts';
import { hexByte } from './module.ts';
import { hex, refusal } from './refusal.ts';

const END = 0x0b;

/**
 * Reads a constant expression. Only a single constant, `ref.null` or `ref.func` is allowed: without imported globals
 * nothing else exists in standard modules but the extended-const proposal, which the IC refuses.
 */
export function decodeConstantExpression(r: ByteReader): ConstantExpression {
  const start = r.position;
  const opcode = r.byte();
  let functionIndex: number | undefined;
  let value: number | undefined;
  switch (opcode) {
    case 0x41:
      value = signed(r, 5) >>> 0;
      break;
    case 0x42: {
      const number = signed(r, 10);
      value = number < 0 ? number + 2 ** 64 : number;
      break;
    }
    case 0x43:
      r.take(4);
      break;
    case 0x44:
      r.take(8);
      break;
    case 0xfd:
      if (r.u32() !== 12) unsupported(r, start, 'a SIMD instruction');
      r.take(16);
      break;
    case 0xd0:
      r.byte();
      break;
    case 0xd2:
      functionIndex = r.u32();
      break;
    default:
      unsupported(r, start, opcode === 0x23 ? 'global.get' : `opcode ${hexByte(opcode)}`);
  }
  const end = r.position;
  if (r.byte() !== END) unsupported(r, end, 'more than one instruction');
  return { bytes: r.bytes.subarray(start, r.position), functionIndex, value };
}

function unsupported(r: ByteReader, at: number, what: string): never {
  throw refusal(
    'wasm-unsupported',
    `${r.what}: ${what} in a constant expression at offset ${hex(at)}; only one constant, ref.null or ref.func is supported`,
  );
}

/** Signed LEB128. */
function signed(r: ByteReader, bytesMax: number): number {
  const at = r.position;
  while (r.byte() >= 0x80) if (r.position - at >= bytesMax) r.fail('a constant that is too long', at);
  return signedLeb(r.bytes, at, r.position);
}
