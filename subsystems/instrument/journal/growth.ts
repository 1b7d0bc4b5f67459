/**
 * Growth of the heap. A module's `memory.grow` becomes a call of
 *
 *     (func $grow (param $delta) (result …)
 *       if $delta is 0: the size
 *       loop $ask
 *         $answer = svc.room(HEAP, $delta)
 *         if $answer is LATER: svc.yield, $ask
 *       end
 *       if $answer is REFUSED: −1
 *       if (memory.grow $delta) is −1: svc.room(NOT_GROWN, $delta), −1
 *       otherwise: the result of memory.grow)
 *
 * because all actors share the machine's memory, and a refusal by V8 depends on the machine just as one by the host
 * does. V8 takes 0.30 µs to grow a memory, the question 0.07.
 */
import { OP, VALUE_TYPE } from '../../wasm/index.ts';
import { ROOM } from '../abi/index.ts';
import type { AddedFunctions } from '../added-functions.ts';
import { type AddressCode, br, call, code, get, HEAP, i32, ifThen, loop, memorySize, tee } from '../assembler.ts';
import type { FunctionTypes } from '../function-types.ts';

/** Indices of the functions that the host provides besides the system API. */
export interface HostFunctions {
  /** () */
  readonly yield: number;
  /** (what i32, amount f64) -> i32 */
  readonly room: number;
}

/** Returns the type of `svc.room`. */
export function roomType(types: FunctionTypes): number {
  return types.index([VALUE_TYPE.i32, VALUE_TYPE.f64], [VALUE_TYPE.i32]);
}

export function addGrow(added: AddedFunctions, address: AddressCode, host: HostFunctions): number {
  const delta = 0;
  const answer = 1;
  const before = 2;
  const is64 = address.type === VALUE_TYPE.i64;
  // Added here, because imports are written after all types.
  roomType(added.types);
  return added.add(
    [address.type],
    [address.type],
    [VALUE_TYPE.i32, address.type],
    code(
      get(delta),
      is64 ? OP.I64_EQZ : OP.I32_EQZ,
      ifThen(memorySize(HEAP), OP.RETURN),
      loop(
        i32(ROOM.HEAP),
        get(delta),
        is64 ? OP.F64_CONVERT_I64_U : OP.F64_CONVERT_I32_U,
        call(host.room),
        tee(answer),
        i32(ROOM.LATER),
        OP.I32_EQ,
        ifThen(call(host.yield), br(1)),
      ),
      get(answer),
      OP.I32_EQZ,
      ifThen(address.constant(-1), OP.RETURN),
      get(delta),
      [OP.MEMORY_GROW, HEAP],
      tee(before),
      address.constant(-1),
      is64 ? OP.I64_EQ : OP.I32_EQ,
      ifThen(
        i32(ROOM.NOT_GROWN),
        get(delta),
        is64 ? OP.F64_CONVERT_I64_U : OP.F64_CONVERT_I32_U,
        call(host.room),
        OP.DROP,
      ),
      get(before),
    ),
  );
}
