/**
 * Lines for a person who has just started a server in a terminal: the inspector, a website, and one call. They are part
 * of the prose log; stdout has the lines of the start-up protocol and nothing else.
 */

interface Place {
  readonly origin: string;
  /** Path of the inspector; undefined: it is turned off. */
  readonly inspector: string | undefined;
  /** True if websites have host names, and the gateway is on. */
  readonly hasSiteHosts: boolean;
  readonly hasSites: boolean;
  readonly hasToken: boolean;
  readonly actors: readonly Looked[];
}

interface Looked {
  readonly name: string;
  readonly hasSite: boolean;
  /** Text of the interface; undefined: there is none. */
  readonly candid: string | undefined;
}

/** Matches an update without parameters that has results, in the text of an interface. */
const SIMPLE_UPDATE = /(?:^|[\s{;])([a-z]\w*)\s*:\s*\(\)\s*->\s*\([^)]+\)\s*(?=[;}]|$)/i;
const HOST_NAME = /^[a-z](?:[a-z0-9-]*[a-z0-9])?$/i;

/** Returns the lines, each a word and where it leads. */
export function whereToLook(place: Place): readonly string[] {
  const { origin, inspector, actors, hasToken } = place;
  const lines: string[] = [];
  if (inspector !== undefined) lines.push(`inspector  ${origin}${inspector}`);
  const site = place.hasSites ? actors.find(({ hasSite }) => hasSite) : undefined;
  if (site !== undefined) lines.push(`website    ${siteOf(site.name, place)}`);
  const call = callOf(actors);
  const header = hasToken ? '-H "Authorization: Bearer $SVC_TOKEN" ' : '';
  if (call !== undefined) lines.push(`a call     curl ${header}-X POST -d '[]' ${origin}/call-json/${call}`);
  return lines;
}

function siteOf(name: string, { origin, hasSiteHosts }: Place): string {
  const { port } = new URL(origin);
  return hasSiteHosts && HOST_NAME.test(name) ? `http://${name}.localhost:${port}/` : `${origin}/site/${name}/`;
}

function callOf(actors: readonly Looked[]): string | undefined {
  for (const { name, candid = '' } of actors) {
    const [, method] = SIMPLE_UPDATE.exec(candid) ?? [];
    if (method !== undefined) return `${name}/${method}`;
  }
  return undefined;
}
