import { isHostScope } from '../../subsystems/auth/index.ts';
import { GATEWAY_BYTES_MAX, readablePathOf, type RouteSpec, ROUTES } from '../../subsystems/http/route-table.ts';

const MIB = 1024 * 1024;

/**
 * Paths that are no routes of the router: they take every method, and the answer is the actor's (targets.ts,
 * websites.ts).
 */
const WEBSITES = [
  { path: '/site/<ACTOR>/<PATH>', request: 'as for a website' },
  { path: '<any other path>', request: 'with `--web ACTOR`: the same' },
] as const;

/** The routes as the Markdown table of docs/http.md. */
export function routesDocument(): string {
  const specs: readonly RouteSpec[] = ROUTES;
  const rows = specs.map((spec) => {
    const { method, path, query = {}, bodyBytesMax, request, answer } = spec;
    const taken = Object.entries(query).flatMap(([name, value]) =>
      [value ?? '…'].flat().map((each) => `\`${name}=${each}\``),
    );
    const cap = bodyBytesMax === undefined ? '' : `${bodyBytesMax / MIB} MiB`;
    const cells = [`\`${method} ${readablePathOf(path)}\``, taken.join(' '), request, cap, answer];
    return `| ${[...cells, neededFor(spec)].join(' | ')} |`;
  });
  const sites = WEBSITES.map(
    ({ path, request }) =>
      `| any \`${path}\` | any | ${request} | ${GATEWAY_BYTES_MAX / MIB} MiB | the actor's (\`docs/websites.md\`) | open |`,
  );
  return [
    '| method and path | query | request | cap | answer | token with |',
    '|---|---|---|---|---|---|',
    ...rows,
    ...sites,
  ].join('\n');
}

/** Returns the words for who may ask: everybody, whoever has a token, or a token with a scope. */
function neededFor({ alsoScope, ...spec }: RouteSpec): string {
  return alsoScope === undefined ? mainScopeOf(spec) : `${mainScopeOf(spec)}, \`${alsoScope}:<ACTOR>\``;
}

function mainScopeOf({ access, scope, path }: RouteSpec): string {
  if (access !== 'token') return 'open';
  if (scope === undefined) return '`*`';
  if (scope === 'any') return 'any scope';
  return isHostScope(scope) ? `\`${scope}\`` : `\`${scope}:${path.includes(':name') ? '<name>' : '<ACTOR>'}\``;
}
