/**
 * The load generator for messages that differ, used if wrk is not installed: a process of its own that gets its
 * messages from its parent and answers with a LoadResult. Each connection sends one request at a time and waits for the
 * answer; connections begin at places spread over the list, and go through it with a stride of their number.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'undici';
import type { LoadResult, MixedLoad } from './load.ts';
import { quantile } from './quantile.ts';

process.once('message', (order: MixedLoad) => {
  void run(order).then((result) => {
    process.send?.(result);
    process.disconnect?.();
  });
});

async function run({ origin, method, messages, bodyHex, headers, thinkMs, connections, seconds }: MixedLoad) {
  const common = Buffer.from(bodyHex, 'hex');
  const latenciesMs: number[] = [];
  let errors = 0;
  const startMs = performance.now();
  const endMs = startMs + seconds * 1000;
  const connection = async (number: number): Promise<void> => {
    const client = new Client(origin, { pipelining: 1 });
    for (let at = number; performance.now() < endMs; at += connections) {
      const { path = '/', body } = messages[at % messages.length] ?? {};
      const sentMs = performance.now();
      try {
        const answer = await client.request({ method, path, body: body ?? common, headers });
        await answer.body.dump();
        if (answer.statusCode < 200 || answer.statusCode > 299) errors += 1;
      } catch {
        errors += 1;
      }
      latenciesMs.push(performance.now() - sentMs);
      if (thinkMs > 0) await sleep(-Math.log(1 - Math.random()) * thinkMs);
    }
    await client.destroy();
  };
  await Promise.all(Array.from({ length: connections }, (_, number) => connection(number)));
  const result: LoadResult = {
    requests: latenciesMs.length,
    requestsPerSecond: latenciesMs.length / ((performance.now() - startMs) / 1000),
    p50Ms: quantile(latenciesMs, 0.5),
    p99Ms: quantile(latenciesMs, 0.99),
    errors,
  };
  return result;
}
