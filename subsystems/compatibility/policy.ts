import { ServerError } from '../../kernel/index.ts';
import type { CandidFindings, CheckerName, ComparedUpgrade, StableFindings, UpgradeFindings } from './index.ts';

/**
 * `warn`: upgrades that cannot be verified, or that break callers, are done and reported. An upgrade that is proven to
 * lose state is refused in any case.
 */
export type UpgradePolicy = 'refuse' | 'warn';

/** Differences that a message names. */
const NAMED_MAX = 3;

/**
 * Measures after which the next comparison can give an answer, by checker. There is none for a module without a
 * signature.
 */
const COMPILER_FIX: Readonly<Record<CheckerName, string>> = {
  bundled: 'name a Motoko compiler in SVC_BIN',
  svc_bin: 'let SVC_BIN name a Motoko compiler that answers',
  moc: 'put another moc beside the server or name one in SVC_BIN',
};

interface JudgedFindings {
  readonly stable: StableFindings;
  readonly candid: CandidFindings;
  /** True if the stable variables may have changed and no checker could compare them. */
  readonly isUnverified: boolean;
}

/** Applies the policy to the findings. */
export function judge(
  { name, isForced }: Pick<ComparedUpgrade, 'name' | 'isForced'>,
  { stable, candid, isUnverified }: JudgedFindings,
  policy: UpgradePolicy,
): Pick<UpgradeFindings, 'refusal' | 'warnings'> {
  if (isForced) return { refusal: undefined, warnings: [] };
  if (stable.compatible === false) {
    const problem = `the new module of ${name} does not take over its stable variables: ${stable.message ?? ''}`;
    const fix = `keep them, write a migration, or give up the check with ?force=true`;
    return { refusal: new ServerError('invalid', 'upgrade-incompatible', `${problem}; ${fix}`), warnings: [] };
  }
  const warnings: string[] = [];
  if (isUnverified) {
    const problem = `nobody can verify that the new module of ${name} takes over its stable variables: ${stable.message ?? ''}`;
    if (policy === 'refuse') {
      const compiler = stable.checker === null ? '' : `${COMPILER_FIX[stable.checker]}, `;
      const fix = `${compiler}start with --upgrade-policy warn, or give up the check with ?force=true`;
      return { refusal: new ServerError('invalid', 'upgrade-unverified', `${problem}; ${fix}`), warnings: [] };
    }
    const doubt = 'nobody can verify that its new module takes over its stable variables';
    warnings.push(`${name} was upgraded, though ${doubt}: ${stable.message ?? ''}`);
  }
  if (candid.compatible === false) {
    const problem = `the new interface of ${name} breaks callers of the old one: ${breaksText(candid)}`;
    if (policy === 'refuse') {
      const fix = 'keep what they use, start with --upgrade-policy warn, or give up the check with ?force=true';
      return { refusal: new ServerError('invalid', 'upgrade-breaks-callers', `${problem}; ${fix}`), warnings: [] };
    }
    warnings.push(
      `${name} was upgraded, though its new interface breaks callers of the old one: ${breaksText(candid)}`,
    );
  }
  return { refusal: undefined, warnings };
}

function breaksText({ removed, changed, added }: CandidFindings): string {
  const texts = [
    ...removed.filter(({ breaks }) => breaks).map(({ path, why }) => `${path} is gone (${why ?? ''})`),
    ...changed
      .filter(({ breaks }) => breaks)
      .map(({ path, from, to, why }) => `${path} was ${from} and is ${to} (${why ?? ''})`),
    ...added.filter(({ breaks }) => breaks).map(({ path, type, why }) => `${path} : ${type} came (${why ?? ''})`),
  ];
  const more = texts.length > NAMED_MAX ? `, and ${texts.length - NAMED_MAX} more` : '';
  return `${texts.slice(0, NAMED_MAX).join(', ')}${more}`;
}
