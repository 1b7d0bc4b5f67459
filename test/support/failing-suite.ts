/** Suites of `svc/contracts/…` over something with a mistake in it: which of their tests fail. */
import type { SuiteRunner } from '../../plugins/api/contracts/runner.ts';

/** Titles of the tests that fail, in order; `first`: no more than that one is waited for. */
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
