/**
 * V8 takes a module with few small functions for the output of a compiler that has already inlined, and then inlines
 * little itself: with less than a quarter of bodies under 50 bytes the budget is 600 and a factor of 2, from a half on
 * 5,000 and more (`BudgetScaleFactor` in V8's inlining tree). Instrumentation makes every body longer, so a module that
 * V8 would have inlined generously would lose that, and metering makes calls more expensive.
 *
 * So the share is restored with empty functions of four bytes each, which are never called and never compiled.
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
