import { InstallError, UpgradeError, type UpgradeReport } from '../canisters/index.ts';
import { rehearsalJson, type RehearsalTexts } from './rehearsal-report.ts';

/** A report as clients get it (docs/http.md, "Resources"). */
export function reportJson(report: UpgradeReport, texts: RehearsalTexts): object {
  const { rehearsal } = report;
  return { ...comparedJson(report), ...(rehearsal && rehearsalJson(rehearsal, texts)) };
}

function comparedJson({
  isUpgraded,
  module: { from, to },
  stable: { checked, checker, compatible, added, removed, changed, message },
  candid,
  persistence,
  instructions,
}: UpgradeReport): object {
  return {
    upgraded: isUpgraded,
    module: { from: from ?? null, to },
    stable: { checked, checker, compatible, added, removed, changed, message },
    candid: {
      compatible: candid.compatible,
      added: candid.added,
      removed: candid.removed,
      changed: candid.changed,
    },
    persistence,
    instructions,
  };
}

/** The report that goes with a refusal; undefined: it was refused before anything was compared. */
export function reportOf(error: unknown, texts: RehearsalTexts): object | undefined {
  const report = error instanceof UpgradeError || error instanceof InstallError ? error.report : undefined;
  return report === undefined ? undefined : reportJson(report, texts);
}
