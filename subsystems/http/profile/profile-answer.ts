import type { MessageProfile } from '../../replay/index.ts';
import { preferredType } from '../accept.ts';
import { callTreeJson, callTreeOf } from './call-tree.ts';
import { cpuProfileOf } from './cpu-profile.ts';
import { flameGraphOf } from './flame-graph.ts';
import { foldedStacks } from './folded-stacks.ts';

const CPU_PROFILE = 'application/x-cpuprofile';
const FLAME_GRAPH = 'image/svg+xml';
const FOLDED_STACKS = 'text/plain';

interface ProfileAnswer {
  readonly type: string;
  readonly text: string;
}

/** Returns the profile alone, in the form that `Accept` prefers; undefined: that is JSON. `name`: that of the root. */
export function profileAnswer(
  accept: string | undefined,
  name: string,
  profile: MessageProfile,
): ProfileAnswer | undefined {
  switch (preferredType(accept, ['application/json', CPU_PROFILE, FLAME_GRAPH, FOLDED_STACKS])) {
    case CPU_PROFILE:
      return { type: CPU_PROFILE, text: JSON.stringify(cpuProfileOf(name, profile)) };
    case FLAME_GRAPH:
      return { type: FLAME_GRAPH, text: flameGraphOf(callTreeOf(name, profile)) };
    case FOLDED_STACKS:
      return { type: `${FOLDED_STACKS}; charset=utf-8`, text: foldedStacks(callTreeOf(name, profile)) };
    default:
      return undefined;
  }
}

/** Returns the profile as a part of JSON. */
export function profileJson(name: string, profile: MessageProfile): object {
  return { samples: profile.samples.length, tree: callTreeJson(callTreeOf(name, profile)) };
}

/** Returns a name in one line: that of a method may be any text. */
export function lineOf(name: string): string {
  return name.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, '?');
}
