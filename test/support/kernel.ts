/** Kernels for tests: working fakes for everything ambient, and a kernel that is stopped when the test ends. */
import assert from 'node:assert/strict';

import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Ambient,
  createKernel,
  type Kernel,
  type KernelOptions,
  type LogFields,
  type Logger,
  type Plugin,
  type Random,
} from '../../kernel/index.ts';
import { FakeClock } from './fake-clock.ts';
import type { TestOwner } from './server.ts';

/** Gives the same bytes for the same seed (xorshift32): good enough for tests, and for nothing else. */
export class SeededRandom implements Random {
  #state: number;

  constructor(seed = 1) {
    assert.ok(seed !== 0, 'xorshift never leaves 0');
    this.#state = seed | 0;
  }

  bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => {
      this.#state ^= this.#state << 13;
      this.#state ^= this.#state >>> 17;
      this.#state ^= this.#state << 5;
      return this.#state & 0xff;
    });
  }
}

interface LoggedEvent {
  readonly event: string;
  readonly fields: LogFields;
  readonly prose: string;
}

/** Keeps all log entries. */
export class RecordingLogger implements Logger {
  readonly events: LoggedEvent[] = [];
  /** `level: message`, in order. */
  readonly lines: string[] = [];
  readonly announced: string[] = [];

  event(event: string, fields: LogFields, prose: string): void {
    this.events.push({ event, fields, prose });
  }
  debug(message: string): void {
    this.lines.push(`debug: ${message}`);
  }
  info(message: string): void {
    this.lines.push(`info: ${message}`);
  }
  warn(message: string): void {
    this.lines.push(`warn: ${message}`);
  }
  error(message: string): void {
    this.lines.push(`error: ${message}`);
  }
  announce(line: string): void {
    this.announced.push(line);
  }
}

export interface FakeAmbient extends Ambient {
  readonly clock: FakeClock;
  readonly random: SeededRandom;
  readonly logger: RecordingLogger;
}

export function fakeAmbient(): FakeAmbient {
  return { clock: new FakeClock(), random: new SeededRandom(), logger: new RecordingLogger() };
}

interface TestKernelOptions extends Partial<Omit<KernelOptions, 'plugins'>> {
  /** For tests whose subject is a plugin that fails to stop. */
  readonly stopMayFail?: boolean;
}

/**
 * Makes a kernel over fakes, not started. It is stopped in `t.after`, and the test fails if that fails or if a
 * listening socket or a worker thread is left behind.
 */
export function createTestKernel(t: TestOwner, plugins: readonly Plugin[], options: TestKernelOptions = {}): Kernel {
  const { stopMayFail = false, ...rest } = options;
  const before = openResources();
  const kernel = createKernel({ ambient: fakeAmbient(), ...rest, plugins });
  t.after(async () => {
    await kernel.stop().catch((error: unknown) => {
      if (!stopMayFail) throw error;
    });
    await assertNothingLeftOpen(before);
  });
  return kernel;
}

/** Makes such a kernel and starts it. */
export async function startKernel(
  t: TestOwner,
  plugins: readonly Plugin[],
  options?: TestKernelOptions,
): Promise<Kernel> {
  const kernel = createTestKernel(t, plugins, options);
  await kernel.start();
  return kernel;
}

const SERVER_RESOURCES = ['TCPServerWrap', 'PipeServerWrap', 'MessagePort', 'Worker'];

function openResources(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of process.getActiveResourcesInfo()) {
    if (SERVER_RESOURCES.includes(name)) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}

/** Closing takes a turn or two of the event loop, so a leak is only one if it stays. */
async function assertNothingLeftOpen(before: ReadonlyMap<string, number>): Promise<void> {
  const leaks = (): string[] =>
    [...openResources()]
      .filter(([name, count]) => count > (before.get(name) ?? 0))
      .map(([name, count]) => `${count} ${name}`);
  for (let attempt = 0; attempt < 50 && leaks().length > 0; attempt++) await sleep(10);
  assert.deepEqual(leaks(), [], 'the kernel left resources open');
}
