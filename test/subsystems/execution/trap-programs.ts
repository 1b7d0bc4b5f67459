/**
 * Programs whose messages change everything that a message can change, each with trap points
 * (test/support/trap-points.ts).
 */
import { readFileSync } from 'node:fs';
import { compileAssemblyScript } from '../../support/assemblyscript.ts';
import { compileMotoko } from '../../support/motoko.ts';
import { randomModule } from '../../support/random-module.ts';
import { withTrapPoints } from '../../support/trap-points.ts';
import { renameExports } from '../../support/wasm-sections.ts';
import { wat } from '../../support/wat.ts';
import { assemble, type Width } from './engine-fixture.ts';

export interface TrapProgram {
  readonly name: string;
  readonly bytes: Uint8Array;
  /** Update methods without arguments. */
  readonly methods: readonly string[];
  /** True if messages without a trap come to their end. */
  readonly returns: boolean;
}

const MOTOKO = `
import CertifiedData "mo:core/CertifiedData";
import Map "mo:core/Map";
import Nat "mo:core/Nat";
import Nat64 "mo:core/Nat64";
import Region "mo:core/Region";
import Text "mo:core/Text";
import Timer "mo:core/Timer";
import VarArray "mo:core/VarArray";

persistent actor Everything {
  var n = 1;
  let notes = Map.empty<Text, Text>();
  let region = Region.new();
  var kept : [var Nat] = [var];

  public func count() : async Nat { n += 1; n };
  public func put() : async Nat { n += 1; Map.add(notes, Text.compare, Nat.toText(n * n % 97), Nat.toText(n ** 40)); Map.size(notes) };
  public func allocate() : async Nat { kept := VarArray.repeat<Nat>(n ** 3, 30_000); kept.size() };
  public func store() : async Nat64 {
    if (Region.size(region) < 3) { ignore Region.grow(region, 1) };
    let old = Region.loadNat64(region, 65_000);
    Region.storeNat64(region, 65_000, old + 1);
    Region.storeBlob(region, 4_090, Text.encodeUtf8(Nat.toText(n ** 20)));
    n += 1;
    old
  };
  public func certify() : async () { n += 1; CertifiedData.set(Text.encodeUtf8(Nat.toText(n % 1_000_000))) };
  public func timer() : async Nat { n += 1; ignore Timer.setTimer<system>(#seconds n, func() : async () { n += 1 }); n };
  public func ask() : async Nat { n += 1; n += await count(); n };
  public func all() : async Nat {
    n += 1;
    CertifiedData.set(Text.encodeUtf8(Nat.toText(n)));
    ignore Region.grow(region, 1);
    Region.storeNat64(region, 8, Nat64.fromNat(n));
    ignore Timer.setTimer<system>(#seconds 7, func() : async () {});
    Map.add(notes, Text.compare, "all", Nat.toText(n));
    n += await count();
    n
  };
};`;
const MOTOKO_METHODS = ['count', 'put', 'allocate', 'store', 'certify', 'timer', 'ask', 'all'];
/** Kernels of benchmarks/fixtures/kernels.as that take about a millisecond. */
const KERNELS = ['recursion', 'hash', 'trees', 'text'];
const PREFIX = 'canister_update ';

/** Makes every effect one after the other, in this order and in reverse. */
function effects(width: Width): Uint8Array {
  const parts = [
    '(i32.store (PTR.const 4094) (i32.add (i32.load (PTR.const 4094)) (i32.const 0x01010101)))',
    '(i64.store (PTR.const 65529) (i64.add (i64.load (PTR.const 65529)) (i64.const -3)))',
    '(call $deeper (i32.const 5))',
    '(call_indirect (type $nothing) (i32.wrap_i64 (i64.and (global.get $g) (i64.const 1))))',
    '(global.set $g (i64.add (global.get $g) (i64.const 1)))',
    '(memory.fill (PTR.const 8000) (i32.wrap_i64 (global.get $g)) (PTR.const 9000))',
    '(memory.copy (PTR.const 20000) (PTR.const 7000) (PTR.const 5000))',
    '(memory.init 0 (PTR.const 30000) (i32.const 0) (i32.const 4))',
    '(drop (memory.grow (PTR.const 1)))',
    '(i32.store8 (PTR.sub (PTR.mul (memory.size) (PTR.const 65536)) (PTR.const 1)) (i32.const 7))',
    '(drop (call $stable64_grow (i64.const 1)))',
    '(call $stable64_write (i64.const 4090) (i64.const 4000) (i64.const 300))',
    '(call $stable64_read (i64.const 12280) (i64.const 4090) (i64.const 20))',
    '(call $certified_data_set (PTR.const 4090) (PTR.const 32))',
    '(drop (call $global_timer_set (i64.add (global.get $g) (i64.const 1900000000000000000))))',
    `(call $call_new (PTR.const 0) (PTR.const 10) (PTR.const 100) (PTR.const 3) (PTR.const 0) (PTR.const 0) (PTR.const 0) (PTR.const 0))
     (call $call_data_append (PTR.const 4000) (PTR.const 200)) (drop (call $call_perform))`,
  ];
  const body = (list: readonly string[]): string => `${list.join('\n')} (data.drop 0) (call $msg_reply)`;
  return assemble(
    width,
    `(module
    (import "ic0" "msg_reply" (func $msg_reply))
    (import "ic0" "stable64_grow" (func $stable64_grow (param i64) (result i64)))
    (import "ic0" "stable64_write" (func $stable64_write (param i64 i64 i64)))
    (import "ic0" "stable64_read" (func $stable64_read (param i64 i64 i64)))
    (import "ic0" "certified_data_set" (func $certified_data_set (param PTR PTR)))
    (import "ic0" "global_timer_set" (func $global_timer_set (param i64) (result i64)))
    (import "ic0" "call_new" (func $call_new (param PTR PTR PTR PTR PTR PTR PTR PTR)))
    (import "ic0" "call_data_append" (func $call_data_append (param PTR PTR)))
    (import "ic0" "call_perform" (func $call_perform (result i32)))
    (memory %index 2 60)
    (type $nothing (func))
    (table 2 funcref)
    (elem (i32.const 0) $even $odd)
    (data "data")
    (global $g (mut i64) (i64.const 7))
    (func $even (i64.store (PTR.const 40000) (global.get $g)))
    (func $odd (i64.store (PTR.const 50000) (global.get $g)))
    (func $deeper (param i32)
      (if (local.get 0) (then
        (i32.store (PTR.const 60000) (i32.add (i32.load (PTR.const 60000)) (local.get 0)))
        (call $deeper (i32.sub (local.get 0) (i32.const 1))))))
    (func (export "canister_init") (drop (call $stable64_grow (i64.const 1))))
    (func (export "canister_update forwards") ${body(parts)})
    (func (export "canister_update backwards") ${body(parts.toReversed())}))`,
  );
}

export async function trapPrograms(): Promise<readonly TrapProgram[]> {
  const kernels = readFileSync(new URL('../../../benchmarks/fixtures/kernels.as', import.meta.url), 'utf8');
  const plain = await compileAssemblyScript(kernels, ['--enable', 'simd']);
  const programs: TrapProgram[] = [
    {
      name: 'AssemblyScript kernels',
      bytes: withTrapPoints(renameExports(plain, (name) => (KERNELS.includes(name) ? PREFIX + name : name))),
      methods: KERNELS,
      returns: true,
    },
  ];
  for (const width of [32, 64] as const) {
    const { wasm } = await compileMotoko(MOTOKO, { persistence: width === 32 ? 'classical' : 'enhanced' });
    programs.push(
      { name: `Motoko, ${width}-bit`, bytes: withTrapPoints(wasm), methods: MOTOKO_METHODS, returns: true },
      {
        name: `every effect, ${width}-bit`,
        bytes: withTrapPoints(effects(width)),
        methods: ['forwards', 'backwards'],
        returns: true,
      },
    );
  }
  return programs;
}

export function randomTrapProgram(seed: number): TrapProgram {
  const { text, methods } = randomModule(seed);
  return { name: `random module ${seed}`, bytes: withTrapPoints(wat(text)), methods, returns: false };
}
