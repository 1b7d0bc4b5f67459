/**
 * V8 takes a module with few small functions for one whose compiler has inlined already, and then inlines little itself:
 * with less than a quarter of bodies under 50 bytes the budget is 600 and a factor of 2, from a half on 5,000 and more
 * (`BudgetScaleFactor` in V8's inlining tree). Instrumentation makes every body longer, so a module that was inlined
 * generously as compiled would not be any more, and calls are what metering makes dearer.
 *
 * So the share is restored with empty functions that nothing calls, four bytes each, never compiled.
 */
import type { AddedFunctions } from '../added-functions.ts';

const SMALL_BODY_BYTES = 50;

/** Adds empty functions until at least half of all bodies are small. `bodies` are the sizes of the module's own. */
export function addSmallFunctions(added: AddedFunctions, smallBodies: number, bodies: number): void {
  const small = smallBodies + added.all.filter(({ body }) => body.length < SMALL_BODY_BYTES).length;
  const missing = bodies + added.all.length - 2 * small;
  for (let k = 0; k < missing; k++) added.add([], [], [], []);
}

export function isSmall(bodyBytes: number): boolean {
  return bodyBytes < SMALL_BODY_BYTES;
}
