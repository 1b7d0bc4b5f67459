/** Motoko actors that take each other's place, well or badly. */
import type { Persistence } from '../../../subsystems/compiler/motoko-compiler.ts';
import { compileMotoko } from '../../support/motoko.ts';

/** What the hooks of the actor do. */
export const MOOD = { works: 0, traps: 1, endless: 2 } as const;
export type Mood = (typeof MOOD)[keyof typeof MOOD];

/**
 * The actor that all others are made of: `inc` counts and writes down, `digest` is made of every stable variable. `arm` says what
 * `preupgrade` will do, the argument what `postupgrade` does.
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

export const SOURCES = {
  base: made(''),
  /** One variable and one method more. */
  wider: made('var extra : Nat = 7;', ', extra', 'public func more() : async Nat { extra += 1; extra };'),
  /** A variable is of another type: nobody takes it over. */
  unfit: made('')
    .replace('var notes : [Text] = []', 'var notes : [Nat] = []')
    .replace('[debug_show count # "!"]', '[count]'),
  /** A method is gone. */
  breaking: made('').replace('public query func get() : async Nat { count };', ''),
} as const;
export type SourceName = keyof typeof SOURCES;

export async function moduleOf(name: SourceName, persistence: Persistence = 'enhanced'): Promise<Uint8Array> {
  return (await compileMotoko(SOURCES[name], { persistence })).wasm;
}

/** `?arg=` of a hook: one nat below 128. */
export const argumentOf = (mood: Mood): string => `arg=0x4449444c00017d0${mood}`;
