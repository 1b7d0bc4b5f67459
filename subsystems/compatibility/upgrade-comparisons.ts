import { ServerError } from '../../kernel/index.ts';
import { JobThread } from '../threads/index.ts';
import type { ComparedTexts, Comparison, ComparisonRequest } from './comparison.ts';
import { DifferenceList, moreText } from './difference-list.ts';
import type {
  CandidFindings,
  Compatibility,
  ComparedCode,
  ComparedUpgrade,
  Effect,
  SideEntry,
  StableFindings,
  UpgradeFindings,
} from './index.ts';
import { named, pathText } from './path.ts';
import { judge, type UpgradePolicy } from './policy.ts';
import { unservedMethods } from './served-methods.ts';
import type { StableChecker } from './stable-checker.ts';

/** Time limit of a comparison, whose other limits end it in a second or two. */
const JOB_DEADLINE_MS = 10_000;
/** Upgrades whose comparison may wait; each holds texts of up to 4 MiB. */
const WAITING_JOBS_MAX = 32;
/** Heap for the types of twice 1 MiB of .did, and for the pairs of them. */
const THREAD_HEAP_MB = 512;
const THREAD_STACK_MB = 4;

interface UpgradeComparisonsOptions {
  readonly policy: UpgradePolicy;
  /** Finds the checker each time, because a program beside the server may come and go. */
  readonly checker: () => StableChecker;
  /** Milliseconds that a comparison may take; default: `JOB_DEADLINE_MS`. */
  readonly deadlineMs?: number | undefined;
}

/** Compares in a thread, asks the compiler meanwhile, and judges by the policy. */
export class UpgradeComparisons implements Compatibility {
  readonly #options: UpgradeComparisonsOptions;
  readonly #thread: JobThread<ComparisonRequest, Comparison>;

  constructor(options: UpgradeComparisonsOptions) {
    this.#options = options;
    const { deadlineMs = JOB_DEADLINE_MS } = options;
    this.#thread = new JobThread({
      name: 'compatibility',
      script: new URL('./comparison-worker.ts', import.meta.url),
      jobDeadlineMs: deadlineMs,
      waitingJobsMax: WAITING_JOBS_MAX,
      heapMb: THREAD_HEAP_MB,
      stackMb: THREAD_STACK_MB,
      refusals: {
        busy: () => {
          const text = `${WAITING_JOBS_MAX} upgrades are waiting to be compared; try again later`;
          return new ServerError('unavailable', 'upgrade-busy', text);
        },
        late: () => {
          const text = `comparing the modules took longer than ${deadlineMs} ms; ${FORCE}`;
          return new ServerError('unavailable', 'comparison-failed', text);
        },
        failed: (what, cause) => {
          const text = `the thread that compares modules ${what}; try again, or ${FORCE}`;
          return new ServerError('unavailable', 'comparison-failed', text, { cause });
        },
        closed: () => {
          const text = 'the server is stopping: nothing is upgraded any more';
          return new ServerError('unavailable', 'comparison-closed', text);
        },
      },
    });
  }

  async compare(upgrade: ComparedUpgrade): Promise<UpgradeFindings> {
    const signatures = signaturesOf(upgrade.from, upgrade.to);
    const different: ComparisonRequest = {
      candid: differentInterfaces(upgrade),
      stable: signatures?.[0] === signatures?.[1] ? undefined : signatures,
    };
    const [asked, differences] = await Promise.all([
      this.#ask(upgrade, signatures),
      this.#differences(different, upgrade.isForced),
    ]);
    const { isUnverified, ...verdict } = asked;
    const stable: StableFindings = { ...NO_DIFFERENCES, ...differences.stable, ...verdict };
    const candid =
      different.candid === undefined ? unparsedFindings(upgrade) : (differences.candid ?? UNKNOWN_INTERFACE);
    return { stable, candid, ...judge(upgrade, { stable, candid, isUnverified }, this.#options.policy) };
  }

  close(): Promise<void> {
    return this.#thread.close();
  }

  /**
   * Returns the differences. Equal interfaces and signatures, as in most upgrades, need no thread. The result of a
   * forced comparison does not affect the upgrade.
   */
  async #differences(request: ComparisonRequest, isForced: boolean): Promise<Comparison> {
    if (request.candid === undefined && request.stable === undefined) return NOT_COMPARED;
    try {
      return await this.#thread.run(request);
    } catch (error) {
      if (!isForced || (error instanceof ServerError && error.code === 'comparison-closed')) throw error;
      return NOT_COMPARED;
    }
  }

  async #ask(
    { from, to, isForced }: ComparedUpgrade,
    signatures: readonly [string, string] | undefined,
  ): Promise<Asked> {
    if (signatures === undefined)
      return { ...unchecked(null, 'neither module says what its stable variables are'), isUnverified: false };
    if (isForced) return { ...unchecked(null, 'not checked: ?force=true'), isUnverified: false };
    if (from.stableTypes === undefined || to.stableTypes === undefined) {
      const which = from.stableTypes === undefined ? 'installed' : 'new';
      return unchecked(null, `the ${which} module does not say what its stable variables are`);
    }
    if (signatures[0] === signatures[1])
      return { checked: true, checker: null, compatible: true, message: null, isUnverified: false };
    const checker = this.#options.checker();
    const verdict = await checker.compareStable(signatures[0], signatures[1]);
    if (verdict.kind === 'unknown') return unchecked(checker.name, verdict.reason);
    return {
      checked: true,
      checker: checker.name,
      compatible: verdict.kind === 'compatible',
      message: verdict.message ?? null,
      isUnverified: false,
    };
  }
}

/** Verdict of a checker; `isUnverified` is true if there is none. */
type Asked = Omit<StableFindings, 'added' | 'removed' | 'changed'> & { readonly isUnverified: boolean };

const FORCE = '?force=true upgrades without comparing';
const NO_DIFFERENCES = { added: [], removed: [], changed: [] };
const NOT_COMPARED: Comparison = { candid: undefined, stable: undefined };
const UNKNOWN_INTERFACE: CandidFindings = { ...NO_DIFFERENCES, compatible: null };
/** Signature of a module without the section, for comparing: it has no variables. */
const NO_VARIABLES = 'actor {}';

function unchecked(checker: StableFindings['checker'], message: string): Asked {
  return { checked: false, checker, compatible: null, message, isUnverified: true };
}

/** Returns the two interfaces; undefined if they are equal, or one is not known. */
function differentInterfaces(upgrade: ComparedUpgrade): ComparedTexts | undefined {
  const before = upgrade.from.candid?.text;
  const after = upgrade.to.candid?.text;
  if (before === undefined || after === undefined) return undefined;
  const unserved = unservedMethods(upgrade);
  return before === after && unserved.length === 0 ? undefined : { before, after, unserved };
}

/** Returns the two signatures; undefined if neither module has one. */
function signaturesOf(from: ComparedCode, to: ComparedCode): readonly [string, string] | undefined {
  if (from.stableTypes === undefined && to.stableTypes === undefined) return undefined;
  const [before, after] = [from, to].map(({ stableTypes }) =>
    stableTypes === undefined ? NO_VARIABLES : Buffer.from(stableTypes).toString('utf8'),
  );
  return [before ?? NO_VARIABLES, after ?? NO_VARIABLES];
}

/** Returns the findings if there are not two different interfaces: equal ones, or a module without a known one. */
function unparsedFindings({ from, to }: ComparedUpgrade): CandidFindings {
  if (from.candid === undefined) return UNKNOWN_INTERFACE;
  if (to.candid !== undefined) return { ...NO_DIFFERENCES, compatible: true };
  // The new interface is known only when the module runs; the module's exports are known now.
  const removed = new DifferenceList<SideEntry & Effect>((count) => ({
    path: '',
    type: moreText(count),
    breaks: false,
    why: null,
  }));
  let isBroken = false;
  for (const [name, kind] of from.methods) {
    if (to.methods.get(name) === kind) continue;
    isBroken = true;
    const why = 'the new module does not export the method, or as another kind';
    removed.add(() => ({ path: pathText(named(undefined, name)), type: kind, breaks: true, why }));
  }
  return { ...NO_DIFFERENCES, removed: removed.toArray(), compatible: isBroken ? false : null };
}
