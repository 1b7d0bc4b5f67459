/** Values that most canisters have in common: one object for all that have the same. */
import type { EnforcedSettings } from '../management/index.ts';
import { idToText } from '../ic/index.ts';

const NO_VARIABLES: ReadonlyMap<string, string> = new Map();
export const NO_LIMITS: EnforcedSettings = {};

/** Lists that are remembered; where there are more, equal ones may be there several times. */
const LISTS_MAX = 1000;

/** Lists of controllers, by what is in them. */
export class SharedControllers {
  readonly #lists = new Map<string, readonly Uint8Array[]>();

  /** The same list for the same content. */
  of(controllers: readonly Uint8Array[]): readonly Uint8Array[] {
    const key = controllers.map((controller) => String.fromCharCode(controller.length) + idToText(controller)).join('');
    const known = this.#lists.get(key);
    if (known !== undefined) return known;
    if (this.#lists.size >= LISTS_MAX) this.#lists.clear();
    this.#lists.set(key, controllers);
    return controllers;
  }
}

export function sharedVariables(variables: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  return variables.size === 0 ? NO_VARIABLES : variables;
}

/** Returns the settings that are kept as such: controllers and variables have places of their own. */
export function limitsOf(settings: EnforcedSettings): EnforcedSettings {
  const limits: { -readonly [K in keyof EnforcedSettings]: EnforcedSettings[K] } = { ...settings };
  delete limits.controllers;
  delete limits.environment;
  return Object.keys(limits).length === 0 ? NO_LIMITS : { ...limits };
}
