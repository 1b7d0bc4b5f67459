/** The Grafana dashboard of config/observability, and the families in its expressions. */
import { readFileSync } from 'node:fs';

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly datasource?: DataSource;
  readonly targets?: readonly { readonly refId: string; readonly expr: string; readonly datasource: DataSource }[];
}

interface DataSource {
  readonly type: string;
  readonly uid: string;
}

interface Dashboard {
  readonly uid: string;
  readonly schemaVersion: number;
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly type: string; readonly definition?: string }[];
  };
  readonly panels: readonly Panel[];
}

export function readObservability(file: string): string {
  return readFileSync(new URL(`../../config/observability/${file}`, import.meta.url), 'utf8');
}

export function readDashboard(): Dashboard {
  return JSON.parse(readObservability('grafana-dashboard.json')) as Dashboard;
}

/** Returns every expression with its panel's title. */
export function expressionsOf({ panels }: Dashboard): readonly { readonly title: string; readonly expr: string }[] {
  return panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })));
}

/** Returns the families that an expression or a text of rules names, without the endings of histograms. */
export function familiesIn(text: string): ReadonlySet<string> {
  const names = [...text.matchAll(/\b(?:svc|process|nodejs)_\w+/g)].map(([name]) => name);
  return new Set(names.map((name) => name.replace(/_(?:bucket|sum|count)$/, '')));
}
