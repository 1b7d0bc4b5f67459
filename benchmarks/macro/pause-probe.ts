/**
 * A process that requests `/health` from servers at a fixed pace, without waiting for the answers, so that a pause
 * affects all requests sent within it.
 *
 *     node pause-probe.ts <every ms> <origin> …    (with an IPC channel)
 *
 * The message `begin` starts a count, `end` is answered with a `ProbeReport`.
 */
import { Agent, get } from 'node:http';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { fork } from 'node:child_process';
import { once } from 'node:events';

export interface ProbeReport {
  /** Milliseconds of each answer, by the server's place in the list. */
  readonly samplesMs: readonly (readonly number[])[];
  /** Answers that were not 200, and connections that failed. */
  readonly errors: number;
  /** Longest pause of the probe's own event loop: figures below it are not reliable. */
  readonly ownPauseMs: number;
}

interface Probe extends AsyncDisposable {
  begin(): void;
  end(): Promise<ProbeReport>;
}

/** Starts the process. */
export function startProbe(everyMs: number, origins: readonly string[]): Probe {
  const child = fork(fileURLToPath(import.meta.url), [String(everyMs), ...origins]);
  return {
    begin: () => void child.send('begin'),
    end: async () => {
      const answered = once(child, 'message') as Promise<[ProbeReport]>;
      child.send('end');
      const [report] = await answered;
      return report;
    },
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
    },
  };
}

if (import.meta.main) {
  const [everyMs = '5', ...origins] = process.argv.slice(2);
  const agent = new Agent({ keepAlive: true });
  const eventLoop = monitorEventLoopDelay({ resolution: 1 });
  let samplesMs: number[][] = [];
  let errors = 0;
  let underWay = 0;
  let timer: NodeJS.Timeout | undefined;

  const ask = (origin: string, at: number): void => {
    const start = performance.now();
    const samples = samplesMs[at];
    underWay++;
    const failed = (): void => {
      underWay--;
      errors++;
    };
    get(`${origin}/health`, { agent }, (response) => {
      response.resume();
      response.on('error', failed);
      response.on('end', () => {
        underWay--;
        if (response.statusCode === 200) samples?.push(performance.now() - start);
        else errors++;
      });
    }).on('error', failed);
  };

  const begin = (): void => {
    samplesMs = origins.map(() => []);
    errors = 0;
    eventLoop.reset();
    eventLoop.enable();
    timer = setInterval(() => origins.forEach(ask), Number(everyMs));
  };

  const end = async (): Promise<void> => {
    clearInterval(timer);
    while (underWay > 0) await new Promise((resolve) => setTimeout(resolve, 1));
    eventLoop.disable();
    process.send?.({ samplesMs, errors, ownPauseMs: eventLoop.max / 1e6 } satisfies ProbeReport);
  };

  process.on('message', (message) => {
    if (message === 'begin') begin();
    else void end();
  });
  process.once('disconnect', () => process.exit(0));
}
