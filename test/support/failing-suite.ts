/** Suites of `svc/contracts/…` over parts with a mistake, and the tests that fail then. */
import type { SuiteRunner } from '../../plugins/api/contracts/runner.ts';

/** Returns the titles of the failing tests, in order; `first`: ends with the first of them. */
export async function failuresOf(
  describe: (runner: SuiteRunner) => void,
  { first = false }: { readonly first?: boolean } = {},
): Promise<readonly string[]> {
  const tests: { readonly title: string; readonly body: () => Promise<void> }[] = [];
  describe({ describe: (_name, body) => body(), test: (title, body) => void tests.push({ title, body }) });
  const failures: string[] = [];
  for (const { title, body } of tests) {
    const failed = await body().then(
      () => false,
      () => true,
    );
    if (failed) failures.push(title);
    if (failed && first) break;
  }
  return failures;
}
