/**
 * A WebAssembly module that computes in the prime field of BLS12-381: `multiply`, `add` and `subtract` of numbers in
 * its memory, each with the addresses of the result and of both operands. BigInt needs 0.5 µs for a product, this 0.15.
 *
 * A number has 14 limbs of 29 bits, in Montgomery form: so products of limbs add up in 64 bits without a carry, and a
 * multiplication takes sums and differences as they are, unreduced.
 *
 *     multiply   operands below 4096 p, the product of both below 2^21 p²; result below 2 p
 *     add        result: the sum
 *     subtract   second operand below 256 p; result: the difference and 256 p
 *
 * Whoever adds and subtracts keeps to these bounds (`points.ts` and `map-to-curve.ts` do). No step depends on values.
 */
import { ByteWriter, OP, VALUE_TYPE } from '../../wasm/index.ts';

/** The prime. */
export const P = 0x1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaabn;
export const LIMBS = 14;
export const LIMB_BITS = 29;
/** Bytes of a number: a word a limb. */
export const NUMBER_BYTES = 4 * LIMBS;

const MASK = 2 ** LIMB_BITS - 1;
const SUBTRACTED_MAX = 256n;
const [I64_LOAD32_U, I64_ADD, I64_SUB, I64_MUL, I64_AND, I64_SHR_S] = [0x35, 0x7c, 0x7d, 0x7e, 0x83, 0x87];
/** Logarithm of the alignment of a word. */
const WORD_ALIGNMENT = 2;
const [RESULT, LEFT, RIGHT] = [0, 1, 2];
const MAGIC = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0];
const SECTION = { type: 1, function: 3, memory: 5, export: 7, code: 10 } as const;
const EXPORT_KIND = { function: 0, memory: 2 } as const;
const FUNCTION_TYPE = 0x60;

/** Returns the limbs of a number, the lowest first. */
export function limbsOf(value: bigint): readonly number[] {
  return Array.from({ length: LIMBS }, (_, at) => Number((value >> BigInt(LIMB_BITS * at)) & BigInt(MASK)));
}

/** Instructions of a function whose locals are three addresses and words of 64 bits. */
class Body {
  readonly code = new ByteWriter(1 << 13);
  #locals = RIGHT + 1;

  local(): number {
    return this.#locals++;
  }

  get(local: number): this {
    this.code.byte(OP.LOCAL_GET);
    this.code.unsigned(local);
    return this;
  }

  set(local: number): this {
    this.code.byte(OP.LOCAL_SET);
    this.code.unsigned(local);
    return this;
  }

  constant(value: number): this {
    this.code.byte(OP.I64_CONST);
    this.code.signed(value);
    return this;
  }

  /** Loads a limb of the number at an address. */
  limb(address: number, at: number): this {
    this.get(address).code.put([I64_LOAD32_U, WORD_ALIGNMENT]);
    this.code.unsigned(4 * at);
    return this;
  }

  /** Stores a limb of the result, which `value` leaves. */
  store(at: number, value: () => void): void {
    this.get(RESULT);
    value();
    this.code.put([OP.I64_STORE32, WORD_ALIGNMENT]);
    this.code.unsigned(4 * at);
  }

  do(...operations: readonly number[]): this {
    this.code.put(operations);
    return this;
  }

  /** Stores limb after limb of what `term` leaves of each, and hands on what is above its bits. */
  storeCarried(term: (at: number) => void): void {
    const [sum, carry] = [this.local(), this.local()];
    this.constant(0).set(carry);
    for (let at = 0; at < LIMBS; at++) {
      term(at);
      this.get(carry).do(I64_ADD).set(sum);
      this.store(at, () => this.get(sum).constant(MASK).do(I64_AND));
      this.get(sum).constant(LIMB_BITS).do(I64_SHR_S).set(carry);
    }
  }

  /** Returns the function as it stands in the code section. */
  written(): Uint8Array {
    const out = new ByteWriter(this.code.length + 16);
    out.put([1]);
    out.unsigned(this.#locals - RIGHT - 1);
    out.byte(VALUE_TYPE.i64);
    out.append(this.code.written());
    out.byte(OP.END);
    return out.written();
  }
}

/** Montgomery's multiplication, a limb of the right operand after the other. */
function multiply(): Body {
  const body = new Body();
  const prime = limbsOf(P);
  // 1 / -p in the lowest limb.
  const factor = Number(inverseInLimb(-P));
  const left = Array.from({ length: LIMBS }, () => body.local());
  const sums = Array.from({ length: LIMBS }, () => body.local());
  const [each, multiple] = [body.local(), body.local()];
  for (const [at, local] of left.entries()) body.limb(LEFT, at).set(local);
  // The lowest sum becomes a multiple of the limb and leaves; its local is the next highest one.
  const sumAt = (round: number, at: number): number => sums[(round + at) % LIMBS] ?? 0;
  for (let round = 0; round < LIMBS; round++) {
    body.limb(RIGHT, round).set(each);
    for (const [at, local] of left.entries()) {
      body.get(local).get(each).do(I64_MUL);
      // The highest one is new in each round, and all are in the first.
      if (round > 0 && at < LIMBS - 1) body.get(sumAt(round, at)).do(I64_ADD);
      body.set(sumAt(round, at));
    }
    body.get(sumAt(round, 0)).constant(factor).do(I64_MUL).constant(MASK).do(I64_AND).set(multiple);
    for (const [at, limb] of prime.entries()) {
      body.get(multiple).constant(limb).do(I64_MUL).get(sumAt(round, at)).do(I64_ADD);
      if (at === 1) body.get(sumAt(round, 0)).constant(LIMB_BITS).do(I64_SHR_S, I64_ADD);
      body.set(sumAt(round, at));
    }
  }
  // The highest limb is what is carried into it.
  body.storeCarried((at) => (at < LIMBS - 1 ? body.get(sumAt(LIMBS, at)) : body.constant(0)));
  return body;
}

function add(): Body {
  const body = new Body();
  body.storeCarried((at) => body.limb(LEFT, at).limb(RIGHT, at).do(I64_ADD));
  return body;
}

function subtract(): Body {
  const body = new Body();
  const more = limbsOf(SUBTRACTED_MAX * P);
  body.storeCarried((at) =>
    body
      .limb(LEFT, at)
      .constant(more[at] ?? 0)
      .do(I64_ADD)
      .limb(RIGHT, at)
      .do(I64_SUB),
  );
  return body;
}

function inverseInLimb(value: bigint): bigint {
  const order = 1n << BigInt(LIMB_BITS);
  let inverse = 1n;
  // Each step doubles the bits that are right.
  for (let bits = 1; bits < LIMB_BITS; bits *= 2) inverse *= 2n - value * inverse;
  return ((inverse % order) + order) % order;
}

/** Returns the module. It exports its memory, of one page, and the three functions. */
export function fieldModule(): Uint8Array {
  const out = new ByteWriter(1 << 15);
  out.put(MAGIC);
  const section = (id: number, write: (into: ByteWriter) => void): void => {
    const content = new ByteWriter(1 << 14);
    write(content);
    out.byte(id);
    out.unsigned(content.length);
    out.append(content.written());
  };
  const functions = Object.entries({ multiply, add, subtract });
  section(SECTION.type, (into) =>
    into.put([1, FUNCTION_TYPE, 3, ...Array.from({ length: 3 }, () => VALUE_TYPE.i32), 0]),
  );
  section(SECTION.function, (into) => into.put([functions.length, ...functions.map(() => 0)]));
  section(SECTION.memory, (into) => into.put([1, 0, 1]));
  section(SECTION.export, (into) => {
    into.unsigned(functions.length + 1);
    for (const [at, [name]] of functions.entries()) {
      into.name(name);
      into.put([EXPORT_KIND.function, at]);
    }
    into.name('memory');
    into.put([EXPORT_KIND.memory, 0]);
  });
  section(SECTION.code, (into) => {
    into.unsigned(functions.length);
    for (const [, body] of functions) {
      const written = body().written();
      into.unsigned(written.length);
      into.append(written);
    }
  });
  return out.written();
}
