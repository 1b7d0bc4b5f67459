/** Messages of a load: their actors, picked by some law, methods and arguments. They are the same in every run. */
import { refuse } from '../../options.ts';
import type { Message } from '../load.ts';

/** Number of requests that are picked in advance; after the last one the load begins again with the first. */
const PICKED = 65_536;
const ZIPF_EXPONENT = 0.99;

/** One kind of message of the mix. */
export interface Kind {
  readonly method: string;
  /** Arguments with placeholders; see `--help`. */
  readonly args: readonly unknown[];
  /** Part of all messages, 0 to 1. */
  readonly share: number;
}

/** Weights of actors, most wanted first. */
export interface Traffic {
  /** Name as it is printed. */
  readonly name: string;
  weightOf(rank: number, actors: number): number;
}

export interface Target {
  readonly name: string;
  readonly principal: string;
  /** Kinds of its methods by their names: `query`, `composite_query`, `update`. */
  readonly methods: ReadonlyMap<string, string>;
}

export const UNIFORM: Traffic = { name: 'uniform', weightOf: () => 1 };

/** Parses `uniform`, `zipf`, `zipf:EXPONENT` or `hot:ACTORS%:MESSAGES%`. */
export function trafficOf(text: string): Traffic {
  const [law, ...parts] = text.trim().toLowerCase().split(':');
  const [first, second] = parts.map(Number);
  if (law === 'uniform' && parts.length === 0) return UNIFORM;
  if (law === 'zipf' && parts.length <= 1 && !Number.isNaN(first)) {
    const exponent = first ?? ZIPF_EXPONENT;
    return { name: first === undefined ? 'Zipf' : `Zipf ${first}`, weightOf: (rank) => (rank + 1) ** -exponent };
  }
  const isShare = (share: number | undefined): share is number => share !== undefined && share > 0 && share < 100;
  if (law === 'hot' && parts.length === 2 && isShare(first) && isShare(second)) {
    return {
      name: `${first} % hot`,
      weightOf: (rank, actors) => {
        const hot = Math.max(1, Math.round((actors * first) / 100));
        if (actors <= hot) return 1;
        return rank < hot ? second / hot : (100 - second) / (actors - hot);
      },
    };
  }
  return refuse(`--traffic ${text}: expected uniform, zipf, zipf:EXPONENT or hot:ACTORS%:MESSAGES% such as hot:10:90`);
}

/** Returns a seeded generator of numbers from 0 to 1. */
function randomNumbers(seed = 7): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Picks the messages of one load. Each picked actor has the requested method. */
export function messagesOf(
  targets: readonly Target[],
  traffic: Traffic,
  kinds: readonly Kind[],
  count = PICKED,
): readonly Message[] {
  const random = randomNumbers();
  const senders = kinds.filter(({ share }) => share > 0).map((kind) => ({ ...kind, pick: pickerOf(kind.method) }));
  return Array.from({ length: count }, () => {
    const wanted = random();
    let sum = 0;
    const sender = senders.find(({ share }) => wanted < (sum += share)) ?? senders[0];
    if (sender === undefined) throw new Error('a mix of no messages');
    const target = sender.pick();
    const path = pathOf(target, sender.method, sender.args.length === 0);
    return sender.args.length === 0 ? { path } : { path, body: JSON.stringify(filled(sender.args, target)) };
  });

  function pickerOf(method: string): () => Target {
    // The most wanted actors are not those created first: ranks are dealt out at random.
    const able = shuffled(
      targets.filter(({ methods }) => methods.has(method)),
      random,
    );
    let sum = 0;
    const upTo = able.map((_, rank) => (sum += traffic.weightOf(rank, able.length)));
    return () => {
      const target = able[firstAtLeast(upTo, random() * sum)];
      if (target === undefined) throw new Error(`no actor has a method ${method}`);
      return target;
    };
  }

  function filled(value: unknown, target: Target): unknown {
    if (value === '{n}') return Math.floor(random() * 1_000_000);
    if (typeof value === 'string') {
      if (!/\{(principal|name|n)\}/.test(value)) return value;
      const other = otherThan(target);
      return value
        .replaceAll('{principal}', other.principal)
        .replaceAll('{name}', other.name)
        .replaceAll('{n}', () => String(Math.floor(random() * 1_000_000)));
    }
    if (Array.isArray(value)) return value.map((element) => filled(element, target));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, filled(field, target)]));
  }

  /** Returns another actor, picked uniformly; the same one if it is the only one. */
  function otherThan(target: Target): Target {
    const at = Math.floor(random() * targets.length);
    const other = targets[at] ?? target;
    return other === target ? (targets[(at + 1) % targets.length] ?? target) : other;
  }
}

/** Without arguments no JSON is read: the body is Candid's empty tuple. */
function pathOf({ name, methods }: Target, method: string, isCandid: boolean): string {
  const route = methods.get(method) === 'update' ? 'call' : 'query';
  return `/${route}${isCandid ? '' : '-json'}/${encodeURIComponent(name)}/${encodeURIComponent(method)}`;
}

function shuffled<T>(values: readonly T[], random: () => number): readonly T[] {
  const result = [...values];
  for (let at = result.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [result[at], result[other]] = [result[other] as T, result[at] as T];
  }
  return result;
}

/** Returns the place of the first of ascending numbers that is not smaller. */
function firstAtLeast(ascending: readonly number[], wanted: number): number {
  let low = 0;
  let high = ascending.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ascending[middle] ?? 0) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}
