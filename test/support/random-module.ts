/**
 * Random canisters as text, with many cases that are hard for the instrumenter: addresses at page borders and at the
 * end of memory, unaligned and straddling stores, values kept in locals through blocks, branches out of several blocks,
 * loops that change an address, calls of all four kinds, multi-value blocks, SIMD, bulk operations, growth, and traps
 * of every sort.
 *
 * All messages end: a global bounds all loops of a message, and a function calls only functions before it.
 */
import { type Seeded, seeded } from './seeded.ts';

const WASM_PAGE = 65_536;
const PAGE = 4096;
const FUNCTIONS = 4;
const ENTRIES = 3;
const ADDRESS_LOCALS = 5;

interface RandomModule {
  readonly text: string;
  readonly pointerWidth: 32 | 64;
  /** Export names without prefix: `canister_update m0` … */
  readonly methods: readonly string[];
}

export function randomModule(seed: number): RandomModule {
  const random = seeded(seed);
  return new Generator(random, random.oneIn(2) ? 64 : 32).module();
}

class Generator {
  readonly #r: Seeded;
  readonly #pointerWidth: 32 | 64;
  /** Pointer type. */
  readonly #p: string;
  readonly #pages: number;
  /** Index of the function that is being made; it calls only those before it. */
  #function = 0;
  #statements = 0;

  constructor(random: Seeded, pointerWidth: 32 | 64) {
    this.#r = random;
    this.#pointerWidth = pointerWidth;
    this.#p = pointerWidth === 64 ? 'i64' : 'i32';
    this.#pages = 1 + random.below(3);
  }

  module(): RandomModule {
    const p = this.#p;
    const index = this.#pointerWidth === 64 ? 'i64 ' : '';
    const functions = Array.from({ length: FUNCTIONS }, (_, k) => this.#functionText(k));
    const methods = Array.from({ length: ENTRIES }, (_, k) => `m${k}`);
    const text = `(module
      (type $f (func (param ${p} ${p}) (result ${p})))
      (type $pair (func (param ${p}) (result ${p} i32)))
      (type $nothing (func))
      (memory (export "memory") ${index}${this.#pages} ${this.#pages + 2})
      (table ${index}${FUNCTIONS + 2} funcref)
      (elem (table 0) (${p}.const 0) func ${functions.map((_, k) => `$f${k}`).join(' ')} $nothing)
      (elem declare func $f0)
      (data (${p}.const 8) "${'active data '.repeat(3)}")
      (data "${'passive'.repeat(6)}")
      (global $guard (export "guard") (mut i32) (i32.const 600))
      (global $g0 (export "g0") (mut i32) (i32.const 5))
      (global $g1 (export "g1") (mut i64) (i64.const 6))
      (global $g2 (export "g2") (mut f64) (f64.const 1.5))
      (global $gp (export "gp") (mut ${p}) (${p}.const 4090))
      (global $constant i32 (i32.const 77))
      (func $nothing (type $nothing) nop)
      ${functions.join('\n')}
      ${methods.map((name) => this.#entry(name)).join('\n')}
    )`;
    return { text, pointerWidth: this.#pointerWidth, methods };
  }

  #entry(name: string): string {
    const callee = `$f${FUNCTIONS - 1 - this.#r.below(2)}`;
    const widen = this.#pointerWidth === 64 ? '' : 'i64.extend_i32_u ';
    const result = `(call ${callee} ${this.#address()} ${this.#address()})`;
    return `(func (export "canister_update ${name}")
      (global.set $guard (i32.const 600))
      (global.set $g1 (i64.add (global.get $g1) ${widen === '' ? result : `(${widen}${result})`})))`;
  }

  #functionText(k: number): string {
    this.#function = k;
    this.#statements = 12 + this.#r.below(40);
    const locals = Array.from({ length: ADDRESS_LOCALS - 2 }, (_, n) => `(local $a${n + 2} ${this.#p})`).join(' ');
    const start = Array.from({ length: ADDRESS_LOCALS - 2 }, (_, n) => `(local.set $a${n + 2} ${this.#address()})`);
    const body: string[] = [];
    while (this.#statements > 0) body.push(this.#statement(0));
    const last =
      k > 0 && this.#r.oneIn(4)
        ? this.#r.oneIn(2)
          ? `(return_call $f${this.#r.below(k)} ${this.#local()} ${this.#local()})`
          : `(return_call_indirect (type $f) ${this.#local()} ${this.#local()} (${this.#p}.const ${this.#r.below(k)}))`
        : this.#local();
    return `(func $f${k} (type $f) (param $a0 ${this.#p}) (param $a1 ${this.#p}) (result ${this.#p}) ${locals} (local $n i32) (local $v v128)
      ${start.join(' ')}
      ${body.join('\n      ')}
      ${last})`;
  }

  // ---- expressions

  #address(): string {
    const size = this.#pages * WASM_PAGE;
    const border = this.#r.pick([
      0,
      PAGE * this.#r.below(this.#pages * 16),
      size,
      size - PAGE,
      WASM_PAGE,
      PAGE * (1 + this.#r.below(4)),
    ]);
    const address = border + this.#r.below(48) - 24;
    const bounded = this.#r.oneIn(60) ? address : Math.min(Math.max(0, address), size - 40 - this.#r.below(3) * 400);
    return `(${this.#p}.const ${bounded})`;
  }

  #localName(): string {
    return `$a${this.#r.below(ADDRESS_LOCALS)}`;
  }
  #local(): string {
    return `(local.get ${this.#localName()})`;
  }

  /** Returns an address as programs compute it: a local, a local plus a constant, an index, a constant. */
  #pointer(): string {
    const p = this.#p;
    switch (this.#r.below(11)) {
      case 0:
        return this.#address();
      case 6:
        return '(global.get $gp)';
      case 7:
        return `(${p}.add (global.get $gp) (${p}.shl (${p}.and ${this.#local()} (${p}.const 31)) (${p}.const 3)))`;
      case 1:
        return `(${p}.add ${this.#local()} (${p}.const ${this.#r.below(80) - 16}))`;
      case 2:
        return `(local.tee ${this.#localName()} ${this.#address()})`;
      case 3:
        return `(${p}.sub ${this.#local()} (${p}.const ${this.#r.below(32)}))`;
      case 4:
        return `(${p}.add ${this.#address()} (${p}.shl (${p}.and ${this.#local()} (${p}.const 63)) (${p}.const ${this.#r.below(4)})))`;
      case 5:
        return `(${p}.add (${p}.shl (${p}.add (${p}.and ${this.#local()} (${p}.const 31)) (${p}.const ${this.#r.below(5)})) (${p}.const 3)) ${this.#local()})`;
      default:
        return this.#local();
    }
  }

  #offset(): number {
    return this.#r.pick([0, this.#r.below(8), this.#r.below(300), 250 + this.#r.below(20), this.#r.below(5000)]);
  }

  #condition(): string {
    const wrap = this.#pointerWidth === 64 ? 'i32.wrap_i64 ' : '';
    const low = wrap === '' ? this.#local() : `(${wrap}${this.#local()})`;
    return `(i32.and ${low} (i32.const ${1 + this.#r.below(16)}))`;
  }

  #i32(): string {
    switch (this.#r.below(9)) {
      case 0:
        return `(i32.load offset=${this.#offset()} ${this.#pointer()})`;
      case 1:
        return `(i32.load16_s ${this.#pointer()})`;
      case 2:
        return '(global.get $g0)';
      case 3:
        return `(i32.div_s (i32.const ${this.#r.below(1000)}) ${this.#r.oneIn(6) ? this.#condition() : '(i32.const 7)'})`;
      case 4:
        return `(i32.trunc_sat_f64_u (global.get $g2))`;
      case 5:
        return `(select (i32.const 3) (global.get $constant) ${this.#condition()})`;
      case 6:
        return `(i32x4.extract_lane 2 (local.get $v))`;
      default:
        return `(i32.const ${this.#r.below(1 << 30) - (1 << 29)})`;
    }
  }

  #store(): string {
    const at = `offset=${this.#offset()} ${this.#pointer()}`;
    const i64 = `(i64.const ${this.#r.below(1 << 30)})`;
    switch (this.#r.below(12)) {
      case 0:
        return `(i64.store ${at} ${i64})`;
      case 1:
        return `(f32.store ${at} (f32.const ${this.#r.below(1000) / 8}))`;
      case 2:
        return `(f64.store ${at} (f64.const ${this.#r.below(1000) / 8}))`;
      case 3:
        return `(i32.store8 ${at} ${this.#i32()})`;
      case 4:
        return `(i32.store16 ${at} ${this.#i32()})`;
      case 5:
        return `(i64.store8 ${at} ${i64})`;
      case 6:
        return `(i64.store16 ${at} ${i64})`;
      case 7:
        return `(i64.store32 ${at} ${i64})`;
      case 8:
        return `(v128.store ${at} (i32x4.add (local.get $v) (v128.const i32x4 1 2 3 ${this.#r.below(100)})))`;
      case 9:
        return `(v128.store16_lane offset=${this.#offset()} ${this.#r.below(8)} ${this.#pointer()} (local.get $v))`;
      case 10:
        // A value computed by a block with effects of its own.
        return `(i32.store ${at} (block (result i32) (i32.store8 offset=${this.#r.below(300)} ${this.#pointer()} (i32.const 9)) (br_if 0 ${this.#i32()} ${this.#condition()})))`;
      default:
        return `(i32.store ${at} ${this.#i32()})`;
    }
  }

  // ---- statements

  #many(depth: number): string {
    return Array.from({ length: 1 + this.#r.below(4) }, () => this.#statement(depth)).join(' ');
  }

  #statement(depth: number): string {
    if (this.#statements-- <= 0) return '';
    const p = this.#p;
    switch (this.#r.below(depth > 4 ? 15 : 26)) {
      case 0:
        return `(local.set ${this.#localName()} ${this.#address()})`;
      case 1:
        return `(local.set ${this.#localName()} ${this.#pointer()})`;
      case 2:
        return `(local.set ${this.#localName()} (${p}.add ${this.#local()} (${p}.const ${this.#r.below(600) - 100})))`;
      case 3:
        return this.#r.oneIn(2) ? `(global.set $g0 ${this.#i32()})` : `(global.set $gp ${this.#pointer()})`;
      case 4:
        return `(global.set $g2 (f64.sqrt (f64.add (global.get $g2) (f64.const ${this.#r.below(50)}))))`;
      case 5:
        return `(local.set $v (v128.load offset=${this.#offset()} ${this.#pointer()}))`;
      case 6:
        return this.#bulk();
      case 7:
        return this.#rare();
      case 15:
      case 16: {
        const otherwise = this.#r.oneIn(2) ? `(else ${this.#many(depth + 1)})` : '';
        return `(if ${this.#condition()} (then ${this.#many(depth + 1)}) ${otherwise})`;
      }
      case 17:
        return `(block ${this.#many(depth + 1)} (br_if ${this.#r.below(depth + 1)} ${this.#condition()}) ${this.#many(depth + 1)})`;
      case 18:
        return `(block ${this.#many(depth + 1)} (if ${this.#condition()} (then (br 1))) ${this.#many(depth + 1)})`;
      case 19:
      case 20:
        return `(local.set $n (i32.const ${1 + this.#r.below(6)}))
          (loop (global.set $guard (i32.sub (global.get $guard) (i32.const 1)))
            (if (i32.lt_s (global.get $guard) (i32.const 0)) (then unreachable))
            ${this.#many(depth + 1)}
            (br_if 0 (i32.gt_s (local.tee $n (i32.sub (local.get $n) (i32.const 1))) (i32.const 0))))`;
      case 21:
        return `(block (block (block (br_table 0 1 2 1 ${this.#condition()})) ${this.#many(depth + 1)}) ${this.#many(depth + 1)})`;
      case 22:
        return this.#call();
      case 23:
        return `(if ${this.#condition()} (then (return ${this.#local()})))`;
      case 24:
        // A block with two results, and one with parameters.
        return `${this.#local()} (block (type $pair) (param ${p}) (result ${p} i32) ${this.#condition()}) (global.set $g0) (local.set ${this.#localName()})`;
      default:
        return this.#store();
    }
  }

  #bulk(): string {
    const p = this.#p;
    const size = `(${p}.const ${this.#r.oneIn(4) ? this.#r.below(9000) : this.#r.below(60)})`;
    switch (this.#r.below(4)) {
      case 0:
        return `(memory.fill ${this.#pointer()} (i32.const ${this.#r.below(64)}) ${size})`;
      case 1:
        return `(memory.init 1 ${this.#pointer()} (i32.const ${this.#r.below(20)}) (i32.const ${this.#r.below(24)}))`;
      default:
        return `(memory.copy ${this.#pointer()} ${this.#pointer()} ${size})`;
    }
  }

  #rare(): string {
    const p = this.#p;
    switch (this.#r.below(40)) {
      case 0:
        return 'unreachable';
      case 1:
      case 2:
        return `(drop (memory.grow (${p}.const 1)))`;
      case 3:
        return `(drop (memory.grow (${p}.const 70000)))`;
      case 4:
        return '(data.drop 1)';
      case 5:
        // The table has no function of this type there, or nothing at all.
        return `(drop (call_indirect (type $f) ${this.#local()} ${this.#local()} (${p}.const ${FUNCTIONS + this.#r.below(2)})))`;
      case 6:
        return `(drop (i32.trunc_f64_s (f64.div (global.get $g2) (f64.const 0))))`;
      case 7:
        return `(drop (ref.is_null (ref.func $f0)))`;
      case 8:
        return `(drop (ref.is_null (table.get 0 (${p}.const ${this.#r.below(7)}))))`;
      default:
        return this.#store();
    }
  }

  #call(): string {
    if (this.#function === 0) return this.#store();
    const callee = this.#r.below(this.#function);
    const call = this.#r.oneIn(2)
      ? `(call $f${callee} ${this.#local()} ${this.#local()})`
      : `(call_indirect (type $f) ${this.#local()} ${this.#local()} (${this.#p}.const ${callee}))`;
    return `(local.set ${this.#localName()} ${call})`;
  }
}
