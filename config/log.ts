/**
 * The server's log: prose for people, or with `--log-json` one JSON line for each event, on stderr; the lines of the
 * start-up protocol on stdout. pino's own line format has fields that an event must not have (docs/running.md), so only
 * pino's destination is used (log-sink.ts).
 *
 * A `job` event is logged for every call, so this code is on the hot path. A caller pays for building one line and its
 * bytes, about half a microsecond.
 */
import { type Clock, type LogFields, type Logger, messageOf } from '../kernel/index.ts';
import { LogSink } from './log-sink.ts';
import { indented, inert, singleLine } from './printable.ts';
import { withSources } from './stacks.ts';

export interface LogOptions {
  readonly isJson: boolean;
  /** True if `debug` lines are printed. */
  readonly isVerbose: boolean;
  /** True if prose is coloured. */
  readonly hasColor: boolean;
  readonly clock: Pick<Clock, 'nowMs'>;
  /** Destination of the log, a file descriptor or a path; stderr unless a test sets another one. */
  readonly destination?: number | string;
  /** Prints one line of the start-up protocol. */
  readonly announce: (line: string) => void;
  /** Returns the shard that every line names, `none` before there is one; undefined: lines name none. */
  readonly shard?: () => string;
}

/** A logger that can be closed. */
export interface ServerLog extends Logger {
  /** Resolves when everything logged so far has been written, or has failed to be written. */
  close(): Promise<void>;
  /** Writes the remaining lines synchronously, just before the process ends. */
  flushNow(): void;
}

const STDERR = 2;

const COLORS = { debug: 90, info: 0, warning: 33, error: 31 } as const;
type Level = keyof typeof COLORS;

export function createLog(options: LogOptions): ServerLog {
  return options.isJson ? new JsonLog(options) : new ProseLog(options);
}

abstract class BaseLog implements ServerLog {
  protected readonly sink: LogSink;
  protected readonly clock: Pick<Clock, 'nowMs'>;
  readonly #isVerbose: boolean;
  readonly #announce: (line: string) => void;
  protected readonly shard: (() => string) | undefined;

  constructor(options: LogOptions) {
    this.shard = options.shard;
    this.sink = new LogSink(options.destination ?? STDERR, (lines) => {
      this.warn(`${lines} log lines were dropped: nobody read them in time`);
    });
    this.clock = options.clock;
    this.#isVerbose = options.isVerbose;
    this.#announce = options.announce;
  }

  abstract event(event: string, fields: LogFields, prose: string): void;
  protected abstract message(level: Level, message: string, error?: unknown): void;

  debug(message: string): void {
    if (this.#isVerbose) this.message('debug', message);
  }

  info(message: string): void {
    this.message('info', message);
  }

  warn(message: string): void {
    this.message('warning', message);
  }

  error(message: string, error?: unknown): void {
    this.message('error', message, error);
  }

  announce(line: string): void {
    this.#announce(indented(line));
  }

  close(): Promise<void> {
    return this.sink.close();
  }

  flushNow(): void {
    this.sink.flushNow();
  }
}

class JsonLog extends BaseLog {
  event(event: string, fields: LogFields): void {
    // Fields are flat objects of strings and numbers: one call of the engine's serializer is faster than any loop here.
    const rest = inert(JSON.stringify(fields));
    const separator = rest === '{}' ? '' : ',';
    const shard = this.shard === undefined ? '' : `,"shard":"${this.shard()}"`;
    const start = `{"ts":${Math.floor(this.clock.nowMs())},"event":${JSON.stringify(event)}${shard}`;
    this.sink.write(`${start}${separator}${rest.slice(1)}\n`);
  }

  protected message(level: Level, message: string, error?: unknown): void {
    const detail = error === undefined ? undefined : detailOf(error);
    this.event(level, detail === undefined ? { message } : { message, detail });
  }
}

class ProseLog extends BaseLog {
  readonly #hasColor: boolean;
  #second = Number.NaN;
  #secondText = '';

  constructor(options: LogOptions) {
    super(options);
    this.#hasColor = options.hasColor;
  }

  event(_event: string, _fields: LogFields, prose: string): void {
    this.sink.write(`${this.#timestamp()} ${singleLine(prose)}\n`);
  }

  protected message(level: Level, message: string, error?: unknown): void {
    const label = level === 'info' ? '' : `${level}: `;
    const detail = error === undefined ? '' : `\n${detailOf(error)}`;
    const body = indented(`${label}${message}${detail}`);
    const color = COLORS[level];
    const painted = this.#hasColor && color !== 0 ? `\u001b[${color}m${body}\u001b[0m` : body;
    this.sink.write(`${this.#timestamp()} ${painted}\n`);
  }

  /** Returns `2026-01-31 13:45:12.345`, UTC, and in a shard process its shard; seconds are built once a second. */
  #timestamp(): string {
    const nowMs = Math.floor(this.clock.nowMs());
    const second = Math.floor(nowMs / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#secondText = new Date(second * 1000).toISOString().slice(0, 19).replace('T', ' ');
    }
    const ms = nowMs - second * 1000;
    const shard = this.shard === undefined ? '' : ` [shard ${this.shard()}]`;
    return `${this.#secondText}.${ms < 10 ? '00' : ms < 100 ? '0' : ''}${ms}${shard}`;
  }
}

/** Causes of an error that are told: a plugin's may be an endless chain, or each other's. */
const CAUSES_MAX = 8;

/** Returns stack and causes of an error, or the text of anything else that was thrown. Whatever it is, it is told. */
function detailOf(error: unknown): string {
  const told: string[] = [];
  try {
    for (let each = error; each !== undefined && told.length <= CAUSES_MAX; each = causeOf(each))
      told.push(each instanceof Error ? withSources(each.stack ?? each.message) : messageOf(each));
  } catch (reason) {
    told.push(`an object that throws while it is read: ${messageOf(reason)}`);
  }
  return told.join('\ncaused by: ');
}

function causeOf(error: unknown): unknown {
  return error instanceof Error ? error.cause : undefined;
}
