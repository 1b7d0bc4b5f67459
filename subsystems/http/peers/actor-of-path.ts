/** The actor that a path of the interface names: which server answers depends on it, before the request is routed. */
import { AGENT_ROUTES } from '../agent-routes.ts';
import { ROUTES } from '../route-table.ts';

/** Parameters of paths that name an actor. */
const NAMING: ReadonlySet<string> = new Set([':actor', ':name', ':principal']);
const INSTALL = 'install';

interface Pattern {
  /** Segments behind the first one: a word, or undefined for any. */
  readonly words: readonly (string | undefined)[];
  /** Place of the actor among them. */
  readonly at: number;
}

const PATTERNS: ReadonlyMap<string, readonly Pattern[]> = patternsOf(
  [...ROUTES, ...AGENT_ROUTES].map(({ path }) => path),
);

/** A path that names an actor. `isNew`: one that need not exist. */
export interface NamedActor {
  readonly reference: string;
  readonly isNew: boolean;
}

/** Returns the actor that a target of the interface names; undefined: it names none, or several. */
export function actorOfPath(target: string): NamedActor | undefined {
  const query = target.indexOf('?');
  const [, first = '', ...rest] = (query < 0 ? target : target.slice(0, query)).split('/');
  const pattern = PATTERNS.get(first)?.find(
    ({ words }) => words.length === rest.length && words.every((word, at) => word === undefined || rest[at] === word),
  );
  if (pattern === undefined) return undefined;
  const reference = decoded(rest[pattern.at] ?? '');
  return reference === undefined ? undefined : { reference, isNew: first === INSTALL };
}

function patternsOf(paths: readonly string[]): Map<string, readonly Pattern[]> {
  const patterns = new Map<string, readonly Pattern[]>();
  for (const path of paths) {
    const [first = '', ...rest] = path.slice(1).split('/');
    const at = rest.findIndex((segment) => NAMING.has(segment));
    // A subnet's principal is no actor's, but that of the host.
    if (at < 0 || rest.includes('subnet')) continue;
    const words = rest.map((segment) => (segment.startsWith(':') ? undefined : segment));
    patterns.set(first, [...(patterns.get(first) ?? []), { words, at }]);
  }
  return patterns;
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
