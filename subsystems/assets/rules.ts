/**
 * `_headers` and `_redirects`, as static hosts read them.
 *
 *     /assets/*                       /old        /new        301
 *       Cache-Control: max-age=…      /blog/:id   /posts/:id
 *     /                               /*          /index.html 200
 *       X-Frame-Options: DENY
 */
import { rulesFault } from './faults.ts';

export type HeaderPair = readonly [name: string, value: string];

interface HeaderRule {
  readonly pattern: readonly string[];
  readonly headers: readonly HeaderPair[];
}

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Headers of the connection: the host writes them. */
const CONNECTION: ReadonlySet<string> = new Set(['connection', 'content-length', 'transfer-encoding', 'trailer']);
const RULES_MAX = 10_000;
const REDIRECTS: ReadonlySet<number> = new Set([200, 301, 302, 303, 307, 308, 404]);

/** Returns a function that tells the headers of a file. Throws ServerError `assets-rules` with all faults. */
export function readHeaders(text: string): (key: string) => readonly HeaderPair[] {
  const rules: { pattern: readonly string[]; headers: HeaderPair[] }[] = [];
  const faults: string[] = [];
  for (const [line, content] of linesOf(text)) {
    if (!/^\s/.test(content)) {
      if (!content.startsWith('/'))
        faults.push(`line ${line}: expected a path that begins with "/", or an indented header`);
      rules.push({ pattern: partsOf(content.trim()), headers: [] });
      continue;
    }
    const colon = content.indexOf(':');
    const name = content.slice(0, colon).trim();
    const value = content.slice(colon + 1).trim();
    const rule = rules.at(-1);
    if (colon < 0 || !NAME.test(name)) faults.push(`line ${line}: expected "Name: value"`);
    else if (/[^\t\x20-\x7e]/.test(value)) faults.push(`line ${line}: a value has printable ASCII characters only`);
    else if (CONNECTION.has(name.toLowerCase())) faults.push(`line ${line}: ${name} is the connection's own`);
    else if (rule === undefined) faults.push(`line ${line}: a path comes before its headers`);
    else rule.headers.push([name, value]);
  }
  if (rules.length > RULES_MAX) faults.push(`it has ${rules.length} of at most ${RULES_MAX} rules`);
  if (faults.length > 0) throw rulesFault('_headers', faults);
  return (key) => headersFor(rules, key);
}

function headersFor(rules: readonly HeaderRule[], key: string): readonly HeaderPair[] {
  if (rules.length === 0) return [];
  const paths = addressesOf(key).map(partsOf);
  return rules.filter(({ pattern }) => paths.some((path) => fits(pattern, path))).flatMap(({ headers }) => headers);
}

/** The paths under which a file is served. */
function addressesOf(key: string): readonly string[] {
  const addresses = [key];
  if (key.endsWith('/index.html')) addresses.push(key.slice(0, -'index.html'.length));
  if (key.endsWith('.html')) addresses.push(key.slice(0, -'.html'.length));
  return addresses;
}

function fits(pattern: readonly string[], path: readonly string[]): boolean {
  for (const [at, part] of pattern.entries()) {
    if (part === '*' && at === pattern.length - 1) return at <= path.length;
    const found = path[at];
    if (found === undefined || (part.startsWith(':') ? found === '' : !partFits(part, found))) return false;
  }
  return pattern.length === path.length;
}

/** `*.js` within a part of the path. */
function partFits(part: string, found: string): boolean {
  const star = part.indexOf('*');
  if (star < 0) return part === found;
  const [head, tail] = [part.slice(0, star), part.slice(star + 1)];
  return found.length >= head.length + tail.length && found.startsWith(head) && found.endsWith(tail);
}

/**
 * Returns the rules as the site reads them, one a line: status, 1 if it is forced, from, to, with tabs between. Throws
 * ServerError `assets-rules` with all faults.
 */
export function readRedirects(text: string): string {
  const rules: string[] = [];
  const faults: string[] = [];
  for (const [line, content] of linesOf(text)) {
    const [from = '', to = '', given = '302', ...more] = content.trim().split(/\s+/);
    const fault = redirectFault(from, to, given, more);
    if (fault !== undefined) faults.push(`line ${line}: ${fault}`);
    else rules.push([given.replace('!', ''), given.endsWith('!') ? '1' : '0', from, to].join('\t'));
  }
  if (rules.length > RULES_MAX) faults.push(`it has ${rules.length} of at most ${RULES_MAX} rules`);
  if (faults.length > 0) throw rulesFault('_redirects', faults);
  return rules.join('\n');
}

function redirectFault(from: string, to: string, given: string, more: readonly string[]): string | undefined {
  if (more.length > 0)
    return 'expected "<from> <to> <status>"; conditions by country, language or query are not served here';
  if (!from.startsWith('/')) return `expected a path that begins with "/", not ${JSON.stringify(from.slice(0, 80))}`;
  if (from.slice(0, -1).includes('*') || (from.endsWith('*') && !from.endsWith('/*')))
    return '"*" stands for the end of a path, behind a "/"';
  const status = Number(given.replace(/!$/, ''));
  if (!REDIRECTS.has(status))
    return `the status is one of ${[...REDIRECTS].join(', ')}, not ${JSON.stringify(given.slice(0, 80))}`;
  const isHere = to.startsWith('/') && !to.startsWith('//');
  if (!isHere && !/^(?:https?:)?\/\/[^/]/.test(to))
    return 'the target is a path that begins with "/", or an address with https://';
  if (!isHere && (status === 200 || status === 404))
    return `only a path of this site can be shown with ${status}: this is no proxy`;
  const loose = to
    .split('/')
    .find((part) => from.split('/').some((name) => name.startsWith(':') && part !== name && part.includes(name)));
  if (loose !== undefined)
    return `${JSON.stringify(loose.slice(0, 80))}: a name stands for a whole part of the target, between slashes`;
  if (/[^\x21-\x7e]/.test(to)) return 'the target has printable ASCII characters only: write others as %hh';
  return undefined;
}

function partsOf(path: string): readonly string[] {
  return path.split('/');
}

/** Returns lines with their numbers, less comments and empty ones. */
function linesOf(text: string): readonly (readonly [number, string])[] {
  return text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .map((content, index) => [index + 1, content.replace(/^\s*#.*$/, '').trimEnd()] as const)
    .filter(([, content]) => content !== '');
}
