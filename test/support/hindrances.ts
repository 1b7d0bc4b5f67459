/**
 * Delays of answers that are provably not the server's fault: flushes that were also slow for a bystander, which
 * flushed one page, beyond the time that the disk needed for all bytes waiting at that moment; processors that the
 * machine did not have; and the tester itself, which was too late to look.
 */
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A span of time: its start in milliseconds since 1970, and its length. */
export interface Span {
  readonly fromMs: number;
  readonly ms: number;
}

/** Lines of `flush-recorder.ts` and `bystander.ts` by their subject. */
interface Records {
  /** Flushes for which the server waited. */
  readonly flushes: readonly Span[];
  /** Flushes for which the bystander waited. */
  readonly bystanderFlushes: readonly Span[];
  readonly stolen: readonly Span[];
  /** Spans in which the tester did not run. */
  readonly late: readonly Span[];
}

/** Returns the environment for a server whose slow flushes are to be written to a file. */
export function recordingFlushes(path: string): Record<string, string> {
  const recorder = fileURLToPath(new URL('./flush-recorder.ts', import.meta.url));
  return { NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --import ${recorder}`, SVC_TEST_FLUSHES: path };
}

/** Starts a bystander and resolves when it is ready. The resolved function ends it and resolves when it has ended. */
export async function startBystander(
  folder: string,
  pid: number,
  out: string,
  execArgv: string[] = [],
): Promise<() => Promise<void>> {
  const bystander = fileURLToPath(new URL('./bystander.ts', import.meta.url));
  const child = fork(bystander, [folder, String(pid), out], { execArgv });
  const ended = once(child, 'exit');
  await Promise.race([once(child, 'message'), ended]);
  assert.equal(child.exitCode, null, 'the bystander is there');
  return async () => {
    child.kill();
    await ended;
  };
}

/** Records of a bystander and of the tester's own lateness, from now on. */
export class HindranceWatch {
  readonly #flushes: string;
  readonly #seen: string;
  readonly #late: Span[] = [];
  readonly #endBystander: () => Promise<void>;
  readonly #endOwn: () => void;

  private constructor(flushes: string, seen: string, endBystander: () => Promise<void>) {
    this.#flushes = flushes;
    this.#seen = seen;
    this.#endBystander = endBystander;
    this.#endOwn = watchOwnLateness(this.#late);
  }

  /**
   * Starts the bystander and the watch; the server should have almost nothing to do meanwhile.
   *
   * @param folder on the server's file system, of the test alone
   * @param flushes where the server writes its slow flushes, as `recordingFlushes` was told
   */
  static async start(folder: string, flushes: string, serverPid: number): Promise<HindranceWatch> {
    const seen = join(folder, 'seen');
    return new HindranceWatch(flushes, seen, await startBystander(folder, serverPid, seen));
  }

  /** Returns all hindrances so far. */
  async read(): Promise<Hindrances> {
    return new Hindrances({
      flushes: await readSpans(this.#flushes, 'flush'),
      bystanderFlushes: await readSpans(this.#seen, 'flush'),
      stolen: await readSpans(this.#seen, 'stolen'),
      late: this.#late,
    });
  }

  async end(): Promise<void> {
    this.#endOwn();
    await this.#endBystander();
  }
}

/** Records spans in which the tester's event loop was busy for LATE_MS; the returned function ends that. */
function watchOwnLateness(late: Span[]): () => void {
  let lookedMs = performance.now();
  const timer = setInterval(() => {
    const nowMs = performance.now();
    const ms = nowMs - lookedMs - LOOK_MS;
    if (ms >= LATE_MS) late.push({ fromMs: performance.timeOrigin + nowMs - ms, ms });
    lookedMs = nowMs;
  }, LOOK_MS);
  return () => clearInterval(timer);
}

const LOOK_MS = 5;
const LATE_MS = 20;

/** Returns the spans on lines of a file that begin with `what`; none if there is no file. */
export async function readSpans(path: string, what: string): Promise<Span[]> {
  const text = await readFile(path, 'utf8').catch(() => '');
  return text
    .split('\n')
    .map((line) => line.split(' '))
    .filter(([word]) => word === what)
    .map(([, fromMs, ms]) => ({ fromMs: Number(fromMs), ms: Number(ms) }));
}

export class Hindrances {
  readonly #spans: readonly Span[];
  /** Flushes for which both the server and the bystander waited. */
  readonly flushes: readonly Span[];

  constructor({ flushes, bystanderFlushes, stolen, late }: Records) {
    this.flushes = flushes
      .flatMap((one) => bystanderFlushes.map((other) => both(one, other)))
      .filter(({ ms }) => ms > 0);
    this.#spans = union([...this.flushes, ...stolen, ...late]);
  }

  get totalMs(): number {
    return this.#spans.reduce((sum, { ms }) => sum + ms, 0);
  }

  /** Returns the milliseconds between two instants that some hindrance covers. */
  within(fromMs: number, toMs: number): number {
    const span = { fromMs, ms: toMs - fromMs };
    return this.#spans.reduce((sum, each) => sum + Math.max(0, both(each, span).ms), 0);
  }
}

/** Returns the common part of two spans; its length is negative if they do not meet. */
function both(one: Span, other: Span): Span {
  const fromMs = Math.max(one.fromMs, other.fromMs);
  return { fromMs, ms: Math.min(one.fromMs + one.ms, other.fromMs + other.ms) - fromMs };
}

/** Returns spans of which none overlaps another. */
function union(spans: readonly Span[]): Span[] {
  const merged: Span[] = [];
  for (const span of spans.toSorted((a, b) => a.fromMs - b.fromMs)) {
    const last = merged.at(-1);
    const end = last === undefined ? -Infinity : last.fromMs + last.ms;
    if (last === undefined || span.fromMs > end) merged.push(span);
    else merged[merged.length - 1] = { fromMs: last.fromMs, ms: Math.max(end, span.fromMs + span.ms) - last.fromMs };
  }
  return merged;
}
