/** Runner of the suites of `svc/contracts/…`: node:test, or the two functions of any other test runner. */
import { describe, test } from 'node:test';

/** Passed to the function that makes the object under test. */
export interface SuiteContext {
  /** Registers a function to be called when the test has ended, in the order of registration, whatever the result. */
  after(end: () => void | Promise<void>): void;
}

export interface SuiteRunner {
  describe(name: string, body: () => void): void;
  test(name: string, body: () => Promise<void>): void;
  /** Milliseconds that a test may take, and also each of its registered ends; default: 120,000. */
  readonly testMs?: number;
}

export type SuiteTest = (name: string, body: (context: SuiteContext) => void | Promise<void>) => void;

/** The longest test takes seconds; a busy machine may be twenty times slower. */
const TEST_MS = 120_000;

export const nodeRunner: SuiteRunner = {
  describe: (name, body) => void describe(name, body),
  test: (name, body) => void test(name, body),
};

/** Declares a suite; each test gets its own context, and fails if it has not ended in time. */
export function suite(runner: SuiteRunner, name: string, body: (declare: SuiteTest) => void): void {
  const { testMs = TEST_MS } = runner;
  runner.describe(name, () =>
    body((title, run) =>
      runner.test(title, async () => {
        const ends: (() => void | Promise<void>)[] = [];
        try {
          await within(testMs, title, async () => run({ after: (end) => void ends.push(end) }));
        } finally {
          for (const end of ends) await within(testMs, `${title}: what is to be ended with it`, async () => end());
        }
      }),
    ),
  );
}

/**
 * Rejects when the time is over and abandons the work. The timer keeps the process alive, which would otherwise end
 * silently.
 */
async function within(ms: number, what: string, work: () => Promise<void>): Promise<void> {
  const over = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    over.reject(new Error(`'${what}' has not ended after ${ms / 1000} s: something that it waits for never comes`));
  }, ms);
  try {
    await Promise.race([work(), over.promise]);
  } finally {
    clearTimeout(timer);
  }
}
