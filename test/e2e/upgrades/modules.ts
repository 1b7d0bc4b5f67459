/** Motoko actors that replace each other, successfully or not. */
import type { Persistence } from '../../../subsystems/compiler/motoko-compiler.ts';
import { compileMotoko } from '../../support/motoko.ts';

/** Behaviour of the actor's hooks. */
export const MOOD = { works: 0, traps: 1, endless: 2 } as const;
export type Mood = (typeof MOOD)[keyof typeof MOOD];

/**
 * The base of all other actors: `inc` counts and notes the count, `digest` covers every stable variable. `arm` sets the
 * behaviour of `preupgrade`, the argument that of `postupgrade`.
 */
const BASE = `
persistent actor class Ledger(mood : Nat) {
  var count : Nat = 0;
  var notes : [Text] = [];
  var armed : Nat = 0;
  //VARIABLES
  func act(mood : Nat) { if (mood == 1) assert false; if (mood == 2) { var n = 0; loop { n += 1 } } };
  public func inc() : async Nat { count += 1; notes := [debug_show count # "!"]; count };
  public func arm(mood : Nat) : async () { armed := mood };
  public query func get() : async Nat { count };
  public query func digest() : async Text { debug_show (count, notes, armed/*DIGEST*/) };
  //METHODS
  system func preupgrade() { act(armed) };
  system func postupgrade() { act(mood); armed := 0 };
};`;

const made = (variables: string, digest = '', methods = ''): string =>
  BASE.replace('//VARIABLES', variables).replace('/*DIGEST*/', digest).replace('//METHODS', methods);

const SOURCES = {
  base: made(''),
  /** Has one more variable and one more method. */
  wider: made('var extra : Nat = 7;', ', extra', 'public func more() : async Nat { extra += 1; extra };'),
  /** Has a variable of another type, which no upgrade can take over. */
  unfit: made('')
    .replace('var notes : [Text] = []', 'var notes : [Nat] = []')
    .replace('[debug_show count # "!"]', '[count]'),
  /** Lacks a method. */
  breaking: made('').replace('public query func get() : async Nat { count };', ''),
} as const;
export type SourceName = keyof typeof SOURCES;

export async function moduleOf(name: SourceName, persistence: Persistence = 'enhanced'): Promise<Uint8Array> {
  return (await compileMotoko(SOURCES[name], { persistence })).wasm;
}

/** Returns `?arg=` of a hook: one nat below 128. */
export const argumentOf = (mood: Mood): string => `arg=0x4449444c00017d0${mood}`;
