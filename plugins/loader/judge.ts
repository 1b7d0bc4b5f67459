/** Judges a module's export: is it a plugin for the capability that it was named for? Trusts nothing in it. */
import { API_VERSION } from '../api/definition.ts';
import { suggestionFor } from '../../kernel/index.ts';

type Fields = Readonly<Record<string, unknown>>;

export interface JudgeOptions {
  /** Capability that the plugin has to provide. */
  readonly capability: string;
  /** The word before `=` in `--plugin`. */
  readonly key: string;
}

const NAME = /^[a-z][a-z0-9-]{0,63}$/;
/** Names below `/x/` that are the server's own, or will be. */
const TAKEN_NAMES: readonly unknown[] = ['actors', 'cluster', 'host', 'messages', 'time'];
const OPTION_NAME = /^[a-z][a-z0-9-]{0,63}$/;
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const HOOKS = ['restore', 'open', 'start', 'ready', 'drain', 'stop'] as const;
const TIMES = ['startSilenceMs', 'stopDeadlineMs'] as const;
const KEYS = [
  'apiVersion',
  'name',
  'provides',
  'alsoProvides',
  'requires',
  'options',
  'routes',
  'isDurable',
  'create',
  ...HOOKS,
  ...TIMES,
];
/** A longer wait than an hour is a mistake: the event never comes. */
const MS_MAX = 3_600_000;
const BODY_BYTES_MAX = 64 * 1024 * 1024;
/**
 * Routes of one plugin. Each is compared with all before it: a hundred thousand took two minutes, and no plugin has a
 * thousand.
 */
const ROUTES_MAX = 1000;

/** Returns true if the value was probably meant to be a plugin. */
export function isPluginLike(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  return 'apiVersion' in value || ('provides' in value && 'create' in value);
}

export function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  return value === undefined ? 'nothing' : `a value of type ${typeof value}`;
}

/**
 * Returns the plugin's problems, each as a continuation of the file's name; empty if there are none. A plugin for
 * another API version gets no further checks.
 */
export function judge(plugin: object, { capability, key }: JudgeOptions): readonly string[] {
  const fields = plugin as Fields;
  const { apiVersion, name, provides, create, isDurable } = fields;
  if (apiVersion !== API_VERSION) return [versionProblem(apiVersion)];
  const problems: string[] = [];
  for (const each of Object.keys(fields)) {
    if (!KEYS.includes(each)) problems.push(`has a key '${each}' that no plugin has${suggestionFor(each, KEYS)}`);
  }
  if (typeof name !== 'string' || !NAME.test(name))
    problems.push("has no usable name: give it one of small letters, digits and '-' (name: 'my-plugin')");
  else if (TAKEN_NAMES.includes(name) && fields['routes'] !== undefined)
    problems.push(`has routes and the name '${name}': /x/${name}/ is the server's own, choose another name`);
  if (!isCapability(provides))
    problems.push(
      'does not say which capability it provides: import one from svc/plugin (provides: Storage), or make one with defineCapability',
    );
  else if (provides.name !== capability)
    problems.push(
      `provides '${provides.name}', and not '${capability}': write --plugin ${provides.name}=… instead of ${key}=…, or correct the plugin`,
    );
  if (typeof create !== 'function')
    problems.push('has no create: give it a function that builds the object from what is granted');
  for (const hook of HOOKS) {
    if (fields[hook] !== undefined && typeof fields[hook] !== 'function')
      problems.push(`has a ${hook} that is ${kindOf(fields[hook])}: make it a function`);
  }
  for (const time of TIMES) {
    const ms = fields[time];
    if (ms !== undefined && !isWholeNumber(ms, 1, MS_MAX))
      problems.push(`has a ${time} that is no number of milliseconds from 1 to ${MS_MAX}`);
  }
  if (isDurable !== undefined && typeof isDurable !== 'boolean')
    problems.push('has an isDurable that is neither true nor false');
  if (isDurable === true && capability !== 'storage' && !(isCapability(provides) && provides.name === 'storage'))
    problems.push('says isDurable, which only a storage can be: take it out');
  if (isDurable === true && wrapsStorage(fields))
    problems.push(
      "says isDurable, and requires 'storage' itself: with --state that one is durable, so take isDurable out",
    );
  return [
    ...problems,
    ...requirementProblems(fields),
    ...optionProblems(fields['options']),
    ...routeProblems(fields['routes']),
  ];
}

function wrapsStorage({ requires }: Fields): boolean {
  return Object.values((requires ?? {}) as Fields).some((each) => isCapability(each) && each.name === 'storage');
}

function versionProblem(version: unknown): string {
  if (version === undefined)
    return `does not say for which version of the plugin API it was written: add apiVersion: ${API_VERSION}`;
  if (typeof version !== 'number')
    return `has an apiVersion that is ${kindOf(version)}: this server's is the number ${API_VERSION}`;
  const fix =
    version > API_VERSION
      ? `use a newer svc, or a release of the plugin for version ${API_VERSION}`
      : 'use a newer release of the plugin, or an older svc';
  return `is written for version ${version} of the plugin API, and this server has version ${API_VERSION}: ${fix}`;
}

function isCapability(value: unknown): value is { readonly name: string } {
  return typeof value === 'object' && value !== null && 'name' in value && typeof value.name === 'string';
}

function isWholeNumber(value: unknown, min: number, max: number): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max;
}

function requirementProblems({ requires, alsoProvides }: Fields): string[] {
  const problems: string[] = [];
  if (requires !== undefined && (typeof requires !== 'object' || requires === null)) {
    problems.push(`has a requires that is ${kindOf(requires)}: write requires: { log: Logger }`);
  } else {
    for (const [key, capability] of Object.entries(requires ?? {})) {
      if (!isCapability(capability))
        problems.push(
          `requires under '${key}' ${kindOf(capability)} instead of a capability: import one from svc/plugin`,
        );
    }
  }
  const isList =
    Array.isArray(alsoProvides) &&
    alsoProvides.every(
      (each: unknown) =>
        isCapability((each as Fields | null)?.['capability']) && typeof (each as Fields)['of'] === 'function',
    );
  if (alsoProvides !== undefined && !isList) problems.push('has an alsoProvides that is no list of face(…)');
  return problems;
}

function optionProblems(options: unknown): string[] {
  if (options === undefined) return [];
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    return [`has options that are ${kindOf(options)}: write options: { url: { type: 'text', summary: '…' } }`];
  return Object.entries(options).flatMap(([name, spec]) => {
    const problem = OPTION_NAME.test(name)
      ? optionProblem(spec)
      : "has a name of other than small letters, digits and '-'";
    return problem === undefined ? [] : [`declares an option '${name}' that ${problem}`];
  });
}

function optionProblem(spec: unknown): string | undefined {
  if (typeof spec !== 'object' || spec === null) return `is ${kindOf(spec)}: write { type: 'text', summary: '…' }`;
  const { type, summary, variable, default: value, choices, unit, min, max } = spec as Fields;
  if (typeof summary !== 'string') return 'has no summary, which --help needs';
  if (variable !== undefined && (typeof variable !== 'string' || !VARIABLE.test(variable)))
    return 'names a variable that no environment can have';
  switch (type) {
    case 'text':
      return value === undefined || typeof value === 'string' ? undefined : 'has a default that is no text';
    case 'switch':
      return value === undefined || typeof value === 'boolean'
        ? undefined
        : 'has a default that is neither true nor false';
    case 'integer':
      if (typeof unit !== 'string') return "has no unit ('ms', 'bytes')";
      if (!isWholeNumber(min, 0, Number.MAX_SAFE_INTEGER) || !isWholeNumber(max, min, Number.MAX_SAFE_INTEGER))
        return 'has no bounds: give whole numbers from 0 on as min and max';
      return value === undefined || isWholeNumber(value, min, max) ? undefined : 'has a default beyond its bounds';
    case 'choice':
      if (!Array.isArray(choices) || choices.length === 0 || !choices.every((each) => typeof each === 'string'))
        return 'has no choices: give a list of words';
      return value === undefined || choices.some((each) => each === value)
        ? undefined
        : 'has a default that is none of its choices';
    default:
      return `has no type that there is${typeof type === 'string' ? suggestionFor(type, OPTION_TYPES) : ''}: ${OPTION_TYPES.join(', ')}`;
  }
}

const OPTION_TYPES = ['text', 'integer', 'choice', 'switch'];

function routeProblems(routes: unknown): string[] {
  if (routes === undefined) return [];
  if (!Array.isArray(routes))
    return [`has routes that are ${kindOf(routes)}: write routes: [{ method: 'GET', path: '/status', answer: … }]`];
  if (routes.length > ROUTES_MAX)
    return [`has ${routes.length} routes, more than ${ROUTES_MAX}: take parameters into paths ('/items/:id')`];
  const seen = new Set<string>();
  return routes.flatMap((route: unknown, index) => {
    const problem = routeProblem(route, seen);
    return problem === undefined ? [] : [`has a route ${index + 1} that ${problem}`];
  });
}

function routeProblem(route: unknown, seen: Set<string>): string | undefined {
  if (typeof route !== 'object' || route === null) return `is ${kindOf(route)}`;
  const { method, path, query, bodyBytesMax, answer } = route as Fields;
  if (!['GET', 'POST', 'PUT', 'DELETE'].includes(String(method))) return 'has no method of GET, POST, PUT, DELETE';
  if (typeof path !== 'string' || !/^(?:\/(?::[A-Za-z]\w*|[A-Za-z0-9._-]+))+$/.test(path))
    return "has no path like '/status' or '/items/:id'";
  // Clients remove such segments before they send a path: the route would be unreachable, or reach something else.
  if (/\/\.\.?(?:\/|$)/.test(path))
    return "has '.' or '..' in its path, which would lead out of the plugin's own: write it plainly";
  const parameters = path.match(/:\w+/g) ?? [];
  if (new Set(parameters).size < parameters.length)
    return `names a parameter of ${path} twice: give each a name of its own`;
  if (typeof answer !== 'function') return 'has no answer, a function of what create made and the request';
  if (
    query !== undefined &&
    (!Array.isArray(query) || !query.every((name) => typeof name === 'string' && /^\w+$/.test(name)))
  )
    return 'has a query that is no list of names';
  if (bodyBytesMax !== undefined && !isWholeNumber(bodyBytesMax, 0, BODY_BYTES_MAX))
    return `has a bodyBytesMax that is no number of bytes up to ${BODY_BYTES_MAX}`;
  const place = `${String(method)} ${path.replaceAll(/:\w+/g, ':')}`;
  if (seen.has(place)) return `is there already: ${String(method)} ${path}`;
  seen.add(place);
  return undefined;
}
