/** Command line of `scheduler-live-cap`: read, checked, and explained with `--help`. */
import { accessSync, constants, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { optionsOf, refuse } from '../../options.ts';
import { type Kind, type Traffic, trafficOf } from './traffic.ts';

export interface LiveCapOptions {
  readonly liveCap: number;
  readonly ratios: readonly number[];
  readonly traffic: readonly Traffic[];
  readonly kinds: readonly Kind[];
  readonly thinkMs: number;
  readonly connections: number;
  readonly seconds: number;
  readonly rounds: number;
  /** Number of sleeping actors that are called; 0: none. */
  readonly wakes: number;
  readonly dir: string | undefined;
  readonly manifest: string | undefined;
  readonly url: string | undefined;
  readonly token: string | undefined;
  /** Flags for each server that is started. */
  readonly flags: readonly string[];
  readonly plugin: string | undefined;
  readonly json: string | undefined;
  readonly csv: string | undefined;
  readonly chart: string | undefined;
}

export const HELP = `npm run bench -- scheduler-live-cap [-- OPTIONS]

Whose actors, and where
  --manifest FILE     host the actors of this manifest, in as many copies as the ratio asks for (default: example counters)
  --url URL           load a server that runs already, with the actors that it has; SVC_TOKEN is its token
  --live-cap N        actors that may be live (100)
  --ratios LIST       hosted to live, a server for each (1,10,100)
  --flags TEXT        further flags of the servers that are started, such as "--executors 1"
  --plugin NAME=FILE  a second server beside each with this plugin, loaded in turns with ours
  --dir FOLDER        where state directories are put: the disk that is measured

Messages
  --method NAME       the method that is called (inc); --args JSON its arguments ([])
  --read NAME         another method; --read-args JSON; --reads SHARE how many of the messages, 0 to 1 (0.5)
  --call NAME         a method that calls another actor (incOf); --call-args JSON (["{principal}"]); --calls SHARE (0)
                      In arguments "{n}" is a random number, {principal} and {name} are those of another actor.
  --traffic LIST      who gets them (uniform,zipf): uniform, zipf[:EXPONENT], hot:ACTORS%:MESSAGES% such as hot:10:90
  --think MS          mean pause of a connection between an answer and its next request (0)
  --connections N     clients (64)

How long, and results
  --seconds N         a load (4); --rounds N loads of each in turns (3)
  --wakes N           how often a sleeping actor is asked by a client alone, 0: never (3000)
  --json FILE  --csv FILE  --chart FILE.svg
  --quick             does it work? figures mean nothing
`;

const TEXT = { type: 'string' } as const;
const OPTIONS = {
  help: { type: 'boolean' },
  quick: { type: 'boolean', default: false },
  'live-cap': TEXT,
  ratios: TEXT,
  connections: TEXT,
  seconds: TEXT,
  rounds: TEXT,
  wakes: TEXT,
  dir: TEXT,
  manifest: TEXT,
  url: TEXT,
  flags: TEXT,
  plugin: TEXT,
  method: TEXT,
  args: TEXT,
  read: TEXT,
  'read-args': TEXT,
  reads: TEXT,
  call: TEXT,
  'call-args': TEXT,
  calls: TEXT,
  traffic: TEXT,
  think: TEXT,
  json: TEXT,
  csv: TEXT,
  chart: TEXT,
} as const;

/** Reads the options; throws a Refusal if they are impossible. `args`: without the program's name. */
export function liveCapOptions(args?: readonly string[]): LiveCapOptions {
  const given = optionsOf(OPTIONS, args);
  if (given.help === true) {
    process.stdout.write(HELP);
    process.exit(0);
  }
  if (given.url !== undefined) {
    for (const name of ['manifest', 'plugin', 'flags', 'ratios', 'live-cap', 'dir'] as const) {
      if (given[name] !== undefined) refuse(`--${name} is for servers that are started here: leave it or --url out`);
    }
    if (given.wakes !== undefined) refuse('--wakes puts actors to sleep, which --url does not: leave one of them out');
  }
  const isForeign = given.manifest !== undefined || given.url !== undefined;
  if (isForeign && given.method === undefined) {
    refuse(`${given.url === undefined ? '--manifest' : '--url'} needs --method NAME: which method is to be called`);
  }
  if (given.chart?.endsWith('.svg') === false) refuse(`--chart ${given.chart}: the file's name has to end in .svg`);
  if (given.plugin?.includes('=') === false) refuse(`--plugin ${given.plugin}: expected NAME=FILE, as the server does`);
  for (const name of ['json', 'csv', 'chart'] as const) checkFolder(name, given[name]);
  const { quick } = given;
  return {
    liveCap: whole('live-cap', given['live-cap'] ?? (quick ? '10' : '100'), 1),
    ratios: (given.ratios ?? (quick ? '1,10' : '1,10,100')).split(',').map((text) => number('ratios', text, 1)),
    traffic: (given.traffic ?? 'uniform,zipf').split(',').map(trafficOf),
    kinds: kindsOf(given, isForeign),
    thinkMs: number('think', given.think ?? '0', 0),
    connections: whole('connections', given.connections ?? '64', 1),
    seconds: whole('seconds', given.seconds ?? (quick ? '1' : '4'), 1),
    rounds: whole('rounds', given.rounds ?? (quick ? '1' : '3'), 1),
    wakes: given.url === undefined ? whole('wakes', given.wakes ?? (quick ? '200' : '3000'), 0) : 0,
    dir: given.dir,
    manifest: given.manifest,
    url: given.url?.replace(/\/+$/, ''),
    token: process.env['SVC_TOKEN'],
    flags: (given.flags ?? '').split(/\s+/).filter((word) => word !== ''),
    plugin: given.plugin,
    json: given.json,
    csv: given.csv,
    chart: given.chart,
  };
}

/** Checks a folder before the run, which takes minutes: its result has to be written at the end. */
function checkFolder(option: string, file: string | undefined): void {
  if (file === undefined) return;
  try {
    accessSync(dirname(file), constants.W_OK);
  } catch {
    refuse(`--${option} ${file}: nothing can be written into ${dirname(file)}`);
  }
}

type Given = Readonly<
  Partial<Record<'method' | 'args' | 'read' | 'read-args' | 'reads' | 'call' | 'call-args' | 'calls', string>>
>;

function kindsOf(given: Given, isForeign: boolean): readonly Kind[] {
  for (const [share, method] of [
    ['reads', 'read'],
    ['read-args', 'read'],
    ['calls', 'call'],
    ['call-args', 'call'],
  ] as const) {
    if (isForeign && given[share] !== undefined && given[method] === undefined) {
      refuse(`--${share} needs --${method} NAME`);
    }
  }
  const readShare = number('reads', given.reads ?? (given.read === undefined ? '0' : '0.5'), 0, 1);
  const callShare = number('calls', given.calls ?? (given.call === undefined ? '0' : '0.1'), 0, 1);
  if (readShare + callShare > 1) refuse(`--reads ${readShare} and --calls ${callShare} are more than all messages`);
  return [
    { method: given.method ?? 'inc', args: argumentsOf('args', given.args ?? '[]'), share: 1 - readShare - callShare },
    { method: given.read ?? 'get', args: argumentsOf('read-args', given['read-args'] ?? '[]'), share: readShare },
    {
      method: given.call ?? 'incOf',
      args: argumentsOf('call-args', given['call-args'] ?? '["{principal}"]'),
      share: callShare,
    },
  ];
}

function argumentsOf(option: string, text: string): readonly unknown[] {
  try {
    const value: unknown = JSON.parse(text);
    if (Array.isArray(value)) return value as readonly unknown[];
  } catch {
    // Reported below, like any other text that is no array.
  }
  return refuse(`--${option} ${text}: expected a JSON array with one element an argument, such as '[5, "a"]'`);
}

function whole(option: string, text: string, least: number): number {
  const value = number(option, text, least);
  return Number.isInteger(value) ? value : refuse(`--${option} ${text}: expected a whole number`);
}

function number(option: string, text: string, least: number, most = Number.MAX_SAFE_INTEGER): number {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (value >= least && value <= most) return value;
  const limit = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`;
  return refuse(`--${option} ${text}: expected a number ${limit}`);
}

/** Reads a manifest far enough to copy its actors. */
export function manifestActors(file: string): Readonly<Record<string, Readonly<Record<string, unknown>>>> {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    return refuse(`--manifest ${file}: ${(error as Error).message}`);
  }
  try {
    const { actors } = JSON.parse(text) as { readonly actors?: unknown };
    if (typeof actors === 'object' && actors !== null && Object.keys(actors).length > 0) {
      return actors as Readonly<Record<string, Readonly<Record<string, unknown>>>>;
    }
  } catch (error) {
    return refuse(`--manifest ${file} is no JSON: ${(error as Error).message}`);
  }
  return refuse(`--manifest ${file} has no actors`);
}
