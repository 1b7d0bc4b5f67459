/** A reporter of `node --test`: writes each failed test as a line of JSON. */
import type { TestEvent } from 'node:test/reporters';

export interface FailedTest {
  /** Path of the file. */
  readonly file: string;
  readonly name: string;
}

export default async function* failedTests(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const { type, data } of events) {
    if (type !== 'test:fail' || data.todo !== undefined) continue;
    // A file that could not be run is a test whose name is its path.
    const failed: FailedTest = { file: data.file ?? data.name, name: data.name };
    yield `${JSON.stringify(failed)}\n`;
  }
}
