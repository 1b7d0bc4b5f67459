/** The user's place in the page, as encoded after `#` in the address: `#/counter/call/inc`. */
export const TABS = ['overview', 'call', 'history', 'output', 'state', 'manage', 'code'] as const;
export type Tab = (typeof TABS)[number];

export interface Place {
  /** Undefined if no actor is open. */
  readonly actor: string | undefined;
  readonly tab: Tab;
  /** Method of the tab `call`; id of a message of the tab `history`. */
  readonly method: string | undefined;
  /** Arguments and caller that the address brings for the method. */
  readonly shared: SharedCall | undefined;
}

/** A call as an address holds it. */
export interface SharedCall {
  /** JSON array of arguments; undefined: `hex` has them. */
  readonly args?: string;
  readonly hex?: string;
  readonly lossless?: boolean;
  readonly caller?: string;
}

export function placeOf(hash: string): Place {
  const [actor = '', tab = '', method = '', shared = ''] = hash
    .replace(/^#?\/?/, '')
    .split('/')
    .map(decoded);
  return {
    actor: actor === '' ? undefined : actor,
    tab: (TABS as readonly string[]).includes(tab) ? (tab as Tab) : 'overview',
    method: method === '' ? undefined : method,
    shared: sharedIn(shared),
  };
}

export function hashOf(actor: string, tab: Tab = 'overview', method?: string, shared?: SharedCall): string {
  const parts = [actor, tab, ...(method === undefined ? [] : [method])];
  if (shared !== undefined) parts.push(JSON.stringify(shared));
  return `#/${parts.map(encodeURIComponent).join('/')}`;
}

/** Returns the call in the address; undefined: there is none, or somebody has changed it so that it is none. */
function sharedIn(text: string): SharedCall | undefined {
  try {
    return sharedCallOf(JSON.parse(text) as Readonly<Record<string, unknown>>);
  } catch {
    return undefined;
  }
}

/** Returns the members of a call that have the types of their names. */
export function sharedCallOf({ args, hex, lossless, caller }: Readonly<Record<string, unknown>>): SharedCall {
  return {
    ...(typeof args === 'string' && { args }),
    ...(typeof hex === 'string' && { hex }),
    ...(lossless === true && { lossless }),
    ...(typeof caller === 'string' && { caller }),
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
