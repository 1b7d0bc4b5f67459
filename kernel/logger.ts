import { defineCapability } from './capability.ts';

export type LogFields = Readonly<Record<string, string | number>>;

/**
 * The server's log. `event` lines are the events of docs/running.md: with `--log-json` one JSON line each with exactly
 * `ts`, `event` and the fields; prose otherwise. Everything goes to stderr, except `announce`.
 */
export interface Logger {
  /** Logs one event; `prose` is the text for people. */
  event(event: string, fields: LogFields, prose: string): void;
  debug(message: string): void;
  info(message: string): void;
  warn(message: string): void;
  error(message: string, error?: unknown): void;
  /** Prints a line of the start-up and shutdown protocol, on stdout in every mode (`listening on …`, `REJECTED …`). */
  announce(line: string): void;
}
export const Logger = defineCapability<Logger>('logger');
