/** The function that undoes the changes that the journal has recorded. Module worker. */
import { OP, VALUE_TYPE } from '../../wasm/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import {
  type AddressCode,
  CONTROL_MEMORY,
  HEAP,
  block,
  br,
  brIf,
  call,
  code,
  controlAccess,
  get,
  i32,
  ifThen,
  ifThenElse,
  loop,
  memorySize,
  readI32,
  set,
  tee,
  writeI32,
} from '../assembler.ts';
import type { AddedFunctions } from '../added-functions.ts';
import { CONTROL, SLOT_BYTES } from '../abi/index.ts';
import { slotAddress } from './journal.ts';

const { i32: I32 } = VALUE_TYPE;
const PAGE_SHIFT = Math.log2(PAGE_BYTES);
const WASM_PAGE_SHIFT = Math.log2(WASM_PAGE_BYTES);

/**
 * Adds (pages i32): undoes the last `pages` touched pages, which are untouched then; when none is left, also the
 * mutable globals, if the message has saved them.
 */
export function addUndo(added: AddedFunctions, address: AddressCode, loadGlobals: number): number {
  const pages = 0;
  const count = 1;
  const saved = 2;
  const page = 3;
  const start = 4;
  const length = 5;
  const less = (local: number): number[] => code(get(local), i32(1), OP.I32_SUB, set(local));
  const undoPage = code(
    less(count),
    get(count),
    i32(2),
    OP.I32_SHL,
    controlAccess(OP.I32_LOAD, CONTROL.LIST),
    tee(page),
    i32(0),
    controlAccess(OP.I32_STORE8),
    get(page),
    address.fromI32,
    address.constant(PAGE_SHIFT),
    address.shl,
    set(start),
    memorySize(HEAP),
    address.constant(WASM_PAGE_SHIFT),
    address.shl,
    get(start),
    address.sub,
    tee(length),
    address.constant(SLOT_BYTES),
    address.ltU,
    OP.I32_EQZ,
    ifThen(address.constant(SLOT_BYTES), set(length)),
    get(page),
    readI32(CONTROL.FRESH),
    OP.I32_LT_U,
    ifThenElse(
      code(less(saved), get(start), get(saved), slotAddress, get(length), address.toI32, OP.MEMORY_COPY, [
        HEAP,
        CONTROL_MEMORY,
      ]),
      code(get(start), i32(0), get(length), OP.MEMORY_FILL, [HEAP]),
    ),
  );
  return added.add(
    [I32],
    [],
    [I32, I32, I32, address.type, address.type],
    code(
      readI32(CONTROL.TOUCHED),
      set(count),
      readI32(CONTROL.SAVED),
      set(saved),
      block(loop(get(count), OP.I32_EQZ, get(pages), OP.I32_EQZ, OP.I32_OR, brIf(1), undoPage, less(pages), br(0))),
      writeI32(CONTROL.TOUCHED, get(count)),
      writeI32(CONTROL.SAVED, get(saved)),
      get(count),
      OP.I32_EQZ,
      readI32(CONTROL.GLOBALS_SAVED),
      OP.I32_AND,
      ifThen(i32(CONTROL.GLOBALS), call(loadGlobals), writeI32(CONTROL.GLOBALS_SAVED, i32(0))),
    ),
  );
}
