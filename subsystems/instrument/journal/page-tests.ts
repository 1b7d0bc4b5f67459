/**
 * Page tests before stores, in the body itself: they compute the page and test if it is touched already (journal.ts).
 * Module worker.
 */
import { PAGE_BYTES } from '../../bytes/index.ts';
import { type ByteWriter, OP } from '../../wasm/index.ts';
import { CONTROL_MEMORY, code, controlAccess, i32, tee } from '../assembler.ts';

const PAGE_SHIFT = Math.log2(PAGE_BYTES);

/** Emits code that adds `offset` to the address on the stack. */
export function emitSum(out: ByteWriter, is64: boolean, offset: number): void {
  if (offset === 0) return;
  out.byte(is64 ? OP.I64_CONST : OP.I32_CONST);
  out.signed(is64 ? offset : offset | 0);
  out.byte(is64 ? OP.I64_ADD : OP.I32_ADD);
}

/** Emits code that turns the address on the stack, plus `offset`, into a page number. */
export function emitPageOf(out: ByteWriter, is64: boolean, offset: number): void {
  emitSum(out, is64, offset);
  out.byte(is64 ? OP.I64_CONST : OP.I32_CONST);
  out.byte(PAGE_SHIFT);
  if (is64) {
    out.byte(OP.I64_SHR_U);
    out.byte(OP.I32_WRAP_I64);
  } else {
    out.byte(OP.I32_SHR_U);
  }
}

/**
 * Emits the condition of a test before a loop, where the page need not exist: in a 64-bit module its number is cut to
 * the range that the control memory certainly has. The page number stays in local `page`.
 */
export function emitIsUntouchedOrBeyond(out: ByteWriter, is64: boolean, page: number, mark: number): void {
  if (!is64) return emitIsUntouched(out, page, mark);
  out.put(code(tee(page), i32(2 ** 21 - 1), OP.I32_AND, controlAccess(OP.I32_LOAD8_U), tee(mark), OP.I32_EQZ));
}

/**
 * Emits a condition that is true if the address on the stack, plus `offset`, reached another page when it moved by a
 * step: the constant, or the value of local `place` if that is not −1.
 */
export function emitIsOnNewPage(out: ByteWriter, is64: boolean, offset: number, constant: number, place: number): void {
  const add = (value: number, opcode: number): void => {
    out.byte(is64 ? OP.I64_CONST : OP.I32_CONST);
    out.signed(is64 ? value : value | 0);
    out.byte(opcode);
  };
  if (offset !== 0) add(offset, is64 ? OP.I64_ADD : OP.I32_ADD);
  add(PAGE_BYTES - 1, is64 ? OP.I64_AND : OP.I32_AND);
  const isLess = is64 ? OP.I64_LT_U : OP.I32_LT_U;
  if (place !== -1) {
    out.byte(OP.LOCAL_GET);
    out.unsigned(place);
    out.byte(isLess);
  } else if (constant > 0) add(constant, isLess);
  else add(PAGE_BYTES - 1 + constant, is64 ? OP.I64_GT_U : OP.I32_GT_U);
}

/**
 * Emits the condition of a page test for the page number on the stack, which is stored in local `page`; an unlikely
 * `if` follows. The mark is stored in a local that the cold branch reads; journal.ts says why.
 */
export function emitIsUntouched(out: ByteWriter, page: number, mark: number): void {
  out.byte(OP.LOCAL_TEE);
  out.unsigned(page);
  out.byte(OP.I32_LOAD8_U);
  out.byte(0x40);
  out.byte(CONTROL_MEMORY);
  out.byte(0);
  out.byte(OP.LOCAL_TEE);
  out.unsigned(mark);
  out.byte(OP.I32_EQZ);
}
