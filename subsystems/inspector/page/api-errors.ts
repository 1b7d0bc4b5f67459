/** Errors of the server's routes, as the page tells them. */
import type { UpgradeReport } from './upgrade-changes.ts';

/** Data that accompanies an error's message. */
interface ErrorDetails {
  /** Lines that a failed hook printed. */
  readonly logs?: readonly string[];
  /** Report of an upgrade that was refused, or failed. */
  readonly report?: UpgradeReport;
}

export class ApiError extends Error {
  readonly status: number;
  readonly logs: readonly string[];
  readonly report: UpgradeReport | undefined;

  constructor(status: number, message: string, { logs = [], report }: ErrorDetails = {}) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.logs = logs;
    this.report = report;
  }
}

/** Error for a request that did not reach the server, or whose answer did not arrive. */
export class UnreachableError extends Error {
  constructor(cause: unknown) {
    super('the server cannot be reached', { cause });
    this.name = 'UnreachableError';
  }
}

/**
 * Turns the browser's TypeError for a broken connection, which looks like a programming mistake, into an
 * UnreachableError.
 */
export async function arrived<T>(part: Promise<T>): Promise<T> {
  try {
    return await part;
  } catch (error) {
    throw error instanceof TypeError ? new UnreachableError(error) : error;
  }
}

/** Returns the error of a response. Built-in routes answer `{code,message}`; checks before them answer plain text. */
export function errorOf(status: number, text: string): ApiError {
  try {
    const parsed = JSON.parse(text) as { message?: unknown; logs?: unknown; upgraded?: unknown };
    const { message, logs } = parsed;
    if (typeof message === 'string') {
      return new ApiError(status, message, {
        ...(Array.isArray(logs) && { logs: logs.map(String) }),
        ...(parsed.upgraded === false && { report: parsed as unknown as UpgradeReport }),
      });
    }
  } catch {
    // The body is plain text.
  }
  return new ApiError(status, text === '' ? `the server answered ${status}` : text);
}
