/** The way back: the function that undoes what the journal has recorded. Module worker. */
import { OP, VALUE_TYPE } from '../../wasm/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import {
  type AddressCode,
  CONTROL_MEMORY,
  HEAP,
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

/** Takes back the heap and, if the message saved them, the mutable globals; afterwards no page is touched. */
export function addUndo(added: AddedFunctions, address: AddressCode, loadGlobals: number): number {
  const count = 0;
  const saved = 1;
  const page = 2;
  const start = 3;
  const length = 4;
  const undoPage = code(
    get(count),
    i32(1),
    OP.I32_SUB,
    tee(count),
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
      code(
        get(saved),
        i32(1),
        OP.I32_SUB,
        set(saved),
        get(start),
        get(saved),
        slotAddress,
        get(length),
        address.toI32,
        OP.MEMORY_COPY,
        [HEAP, CONTROL_MEMORY],
      ),
      code(get(start), i32(0), get(length), OP.MEMORY_FILL, [HEAP]),
    ),
  );
  return added.add(
    [],
    [],
    [I32, I32, I32, address.type, address.type],
    code(
      readI32(CONTROL.TOUCHED),
      set(count),
      readI32(CONTROL.SAVED),
      set(saved),
      get(count),
      ifThen(loop(undoPage, get(count), brIf(0))),
      writeI32(CONTROL.TOUCHED, i32(0)),
      writeI32(CONTROL.SAVED, i32(0)),
      readI32(CONTROL.GLOBALS_SAVED),
      ifThen(i32(CONTROL.GLOBALS), call(loadGlobals), writeI32(CONTROL.GLOBALS_SAVED, i32(0))),
    ),
  );
}
