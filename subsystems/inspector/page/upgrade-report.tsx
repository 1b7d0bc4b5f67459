import type { Difference, Differences, UpgradeReport } from './upgrade-changes.ts';
import { inertText } from './inert-text.ts';
import { Badge, type Tone } from './pieces.tsx';

/** Changes that an upgrade made, or would have made. */
export function Report({ report }: { readonly report: UpgradeReport }) {
  const { stable, candid, persistence, instructions } = report;
  return (
    <div class="report">
      <Part title="Stable variables" differences={stable} verdict={stableVerdict(report)} />
      {stable.message !== null && <p class="hint">{inertText(stable.message)}</p>}
      <Part title="Interface" differences={candid} verdict={candidVerdict(candid)} />
      <p class="hint">
        {persistence === 'keep' ? 'The heap is kept' : 'The heap is replaced'}; the hooks took{' '}
        {instructions.toLocaleString('en-US')} instructions.
      </p>
    </div>
  );
}

interface Verdict {
  readonly tone: Tone;
  readonly text: string;
}

const CHECKERS: Readonly<Record<string, string>> = {
  bundled: 'the bundled compiler',
  svc_bin: 'the compiler of SVC_BIN',
  moc: 'the moc beside the server',
};

function stableVerdict({ stable: { checked, checker, compatible } }: Pick<UpgradeReport, 'stable'>): Verdict {
  const by = checker === null ? '' : `, says ${CHECKERS[checker] ?? checker}`;
  if (!checked) return { tone: 'warn', text: 'not checked' };
  if (compatible === false) return { tone: 'bad', text: `incompatible${by}` };
  return { tone: 'good', text: checker === null ? 'unchanged' : `compatible${by}` };
}

function candidVerdict({ compatible }: Differences): Verdict {
  if (compatible === null) return { tone: 'none', text: 'not known' };
  return compatible ? { tone: 'good', text: 'compatible' } : { tone: 'bad', text: 'breaks callers' };
}

function Part({
  title,
  differences: { added, removed, changed },
  verdict,
}: {
  readonly title: string;
  readonly differences: Differences;
  readonly verdict: Verdict;
}) {
  const rows = [
    ...removed.map((difference) => ['removed', difference] as const),
    ...changed.map((difference) => ['changed', difference] as const),
    ...added.map((difference) => ['added', difference] as const),
  ];
  return (
    <>
      <h4>
        {title} <Badge {...verdict} />
      </h4>
      {rows.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label={title}>
          <table>
            <tbody>
              {rows.map(([what, difference]) => (
                <tr key={`${what} ${difference.path} ${difference.type ?? difference.from ?? ''}`}>
                  <td>
                    <Badge tone={difference.breaks === true ? 'bad' : 'none'} text={what} />
                  </td>
                  <td class="mono">{inertText(difference.path)}</td>
                  <td class="mono">{inertText(typeText(difference))}</td>
                  <td>{inertText(difference.why ?? '')}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

function typeText({ type, from, to }: Difference): string {
  return type ?? `${from ?? ''} → ${to ?? ''}`;
}
