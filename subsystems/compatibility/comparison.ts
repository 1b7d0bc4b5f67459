/** Requests to the thread for comparisons, and its answers. */
import { ServerError } from '../../kernel/index.ts';
import { interfaceTypes } from '../codec/interface-types/index.ts';
import { compareInterfaces } from './compare-interfaces.ts';
import { compareSignatures } from './compare-signatures.ts';
import type { CandidFindings, StableDifferences } from './index.ts';

/** Texts of the modules before and after. Undefined: nothing is to be compared. */
export interface ComparisonRequest {
  readonly candid: ComparedTexts | undefined;
  readonly stable: readonly [before: string, after: string] | undefined;
}

export interface ComparedTexts {
  readonly before: string;
  readonly after: string;
  /** Methods that the later text describes but its module lacks: they count as missing. */
  readonly unserved: readonly string[];
}

export interface Comparison {
  readonly candid: CandidFindings | undefined;
  readonly stable: StableDifferences | undefined;
}

export function compareTexts({ candid, stable }: ComparisonRequest): Comparison {
  return {
    candid: candid === undefined ? undefined : candidFindings(candid),
    stable: stable === undefined ? undefined : compareSignatures(stable[0], stable[1]),
  };
}

function candidFindings({ before, after, unserved }: ComparedTexts): CandidFindings {
  try {
    const described = interfaceTypes(after);
    const lost = new Set(unserved);
    const served = { ...described, methods: described.methods.filter(({ name }) => !lost.has(name)) };
    const { isCompatible, added, removed, changed } = compareInterfaces(interfaceTypes(before), served);
    return { compatible: isCompatible, added, removed, changed };
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    // The host parses an interface together with the constructor's arguments; here the text stands alone.
    const change = { path: '', from: 'service', to: 'service', breaks: true, why: error.message };
    return { compatible: false, added: [], removed: [], changed: [change] };
  }
}
