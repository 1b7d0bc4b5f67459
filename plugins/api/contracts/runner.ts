/** How a suite of `svc/contracts/…` runs: with node:test, or with the two functions of whatever runner a team has. */
import { describe, test } from 'node:test';

/** Handed to whoever makes what a test is about. */
export interface SuiteContext {
  /** Called when the test has ended, in the order of these calls, however it ended. */
  after(end: () => void | Promise<void>): void;
}

export interface SuiteRunner {
  describe(name: string, body: () => void): void;
  test(name: string, body: () => Promise<void>): void;
}

export type SuiteTest = (name: string, body: (context: SuiteContext) => void | Promise<void>) => void;

/** Of a suite in which something waits for what never comes. */
const TIMEOUT_MS = 120_000;

export const nodeRunner: SuiteRunner = {
  describe: (name, body) => void describe(name, { timeout: TIMEOUT_MS }, body),
  test: (name, body) => void test(name, body),
};

/** Declares a suite; each of its tests gets a context of its own. */
export function suite(runner: SuiteRunner, name: string, body: (declare: SuiteTest) => void): void {
  runner.describe(name, () =>
    body((title, run) =>
      runner.test(title, async () => {
        const ends: (() => void | Promise<void>)[] = [];
        try {
          await run({ after: (end) => void ends.push(end) });
        } finally {
          for (const end of ends) await end();
        }
      }),
    ),
  );
}
