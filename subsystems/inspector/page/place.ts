/** The user's place in the page, as encoded after `#` in the address: `#/counter/call/inc`. */
export const TABS = ['overview', 'call', 'history', 'output', 'code'] as const;
export type Tab = (typeof TABS)[number];

export interface Place {
  /** Undefined if no actor is open. */
  readonly actor: string | undefined;
  readonly tab: Tab;
  /** Method of the tab `call`. */
  readonly method: string | undefined;
}

export function placeOf(hash: string): Place {
  const [actor = '', tab = '', method = ''] = hash
    .replace(/^#?\/?/, '')
    .split('/')
    .map(decoded);
  return {
    actor: actor === '' ? undefined : actor,
    tab: (TABS as readonly string[]).includes(tab) ? (tab as Tab) : 'overview',
    method: method === '' ? undefined : method,
  };
}

export function hashOf(actor: string, tab: Tab = 'overview', method?: string): string {
  return `#/${[actor, tab, ...(method === undefined ? [] : [method])].map(encodeURIComponent).join('/')}`;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
