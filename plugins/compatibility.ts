import { definePlugin } from '../kernel/index.ts';
import { type CheckerPlaces, findChecker } from '../subsystems/compatibility/find-checker.ts';
import { Compatibility } from '../subsystems/compatibility/index.ts';
import type { UpgradePolicy } from '../subsystems/compatibility/policy.ts';
import { UpgradeComparisons } from '../subsystems/compatibility/upgrade-comparisons.ts';
import { Compiler } from '../subsystems/compiler/index.ts';

interface CompatibilityConfig extends CheckerPlaces {
  readonly policy: UpgradePolicy;
}

export const compatibilityPlugin = definePlugin({
  name: 'compatibility',
  provides: Compatibility,
  requires: { compiler: Compiler },
  neededBecause: 'an upgrade that nobody looks at may lose state: --upgrade-policy says what is refused',
  create: ({ compiler }, { config }: { readonly config: CompatibilityConfig }) =>
    new UpgradeComparisons({ policy: config.policy, checker: () => findChecker(config, compiler) }),
  stop: (comparisons) => comparisons.close(),
  stopDeadlineMs: 5_000,
});
