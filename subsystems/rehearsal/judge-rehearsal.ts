import { ServerError } from '../../kernel/index.ts';
import { isFault } from './compared-ends.ts';
import type { RehearsalReport, RehearsalVerdict } from './index.ts';

/** `--upgrade-policy`: `warn` does an upgrade that breaks messages, and tells it. */
export type RehearsalPolicy = 'refuse' | 'warn';

/** Applies the policy: an upgrade is refused that turns answers into faults. */
export function judgeRehearsal(
  name: string,
  { replayed }: RehearsalReport,
  isForced: boolean,
  policy: RehearsalPolicy,
): RehearsalVerdict {
  if (isForced || replayed === undefined) return { refusal: undefined, warnings: [] };
  if (replayed.count === 0) {
    const why = replayed.hooks?.message ?? replayed.why ?? 'there were no messages';
    return { refusal: undefined, warnings: [`${name} was upgraded without rehearsal: ${why}`] };
  }
  if (replayed.broken === 0) return { refusal: undefined, warnings: [] };
  const problem = `the new code fails in ${replayed.broken} of the last ${replayed.count} messages that the old code answered`;
  const first = replayed.differences.find(
    ({ was, is, isBehindDivergence }) => !isBehindDivergence && !isFault(was) && isFault(is),
  );
  const example = first === undefined ? '' : `, first in seq:${first.seq}: ${first.is.message ?? first.is.outcome}`;
  if (policy === 'warn') return { refusal: undefined, warnings: [`${name} was upgraded, though ${problem}${example}`] };
  const fix =
    'mend it (?dry=1&replay=N shows the messages), start with --upgrade-policy warn, or give up the check with ?force=true';
  return {
    refusal: new ServerError('invalid', 'upgrade-breaks-messages', `${name}: ${problem}${example}; ${fix}`),
    warnings: [],
  };
}
