import type { MessageProfile, ReplayReport } from '../../replay/index.ts';
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

/** Returns the profile alone, in the form that `Accept` prefers; undefined: it belongs into the JSON of the replay. */
export function profileAnswer(accept: string | undefined, report: ReplayReport): ProfileAnswer | undefined {
  const { profile } = report;
  if (profile === undefined) return undefined;
  const name = rootName(report);
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

/** Returns the profile as the JSON of a replay has it. */
export function profileJson(report: ReplayReport, profile: MessageProfile): object {
  return { samples: profile.samples.length, tree: callTreeJson(callTreeOf(rootName(report), profile)) };
}

/** The name of a method may be any text. */
function rootName({ entry: { note, seq } }: ReplayReport): string {
  const name = note.method === '' ? note.kind : note.method.replaceAll(/\p{C}/gu, '?');
  return `${name} seq:${seq}`;
}
