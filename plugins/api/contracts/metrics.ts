/** `svc/contracts/metrics`: the suite that every implementation of Metrics has to pass. */
import assert from 'node:assert/strict';
import { systemClock } from '../../../kernel/index.ts';
import type { Metrics } from '../../../subsystems/metrics/index.ts';
import { PrometheusMetrics } from '../../../subsystems/metrics/prometheus-metrics.ts';
import { idleServer } from './support/idle-server.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from './runner.ts';

export function describeMetrics(
  name: string,
  make: (context: SuiteContext, own: () => Metrics) => Metrics | Promise<Metrics>,
  runner: SuiteRunner = nodeRunner,
): void {
  const made = async (t: SuiteContext): Promise<Metrics> =>
    make(t, () => new PrometheusMetrics({ ...idleServer, clock: systemClock }));
  suite(runner, name, (test) => {
    test('a class of endpoints has one tally, whoever asks for it, and each class its own', async (t) => {
      const metrics = await made(t);
      const tally = metrics.requestsOf('call');
      const before = tally.value;
      tally.value++;
      assert.equal(metrics.requestsOf('call').value, before + 1);
      assert.notEqual(metrics.requestsOf('query'), tally);
    });

    test('answers and streams are taken whatever their status and time', async (t) => {
      const tally = (await made(t)).requestsOf('call');
      for (const status of [200, 404, 500, 599])
        for (const ms of [0, 0.001, 5, 1e7]) {
          tally.answered(status, ms);
          tally.streamed(status);
        }
    });

    test('a page is UTF-8 of the type that it names, and pages follow each other', async (t) => {
      const metrics = await made(t);
      assert.match(metrics.contentType, /^[\w.+-]+\/[\w.+-]+/);
      metrics.requestsOf('call').value += 3;
      for (let pages = 0; pages < 3; pages++) assert.ok((await pageOf(metrics)).length > 0);
    });

    test('a number that is shown stands on every page from then on, as it is then', async (t) => {
      const metrics = await made(t);
      let value = 4711;
      metrics.show({ name: 'svc_contract_things', type: 'gauge', help: 'Things.', read: () => value });
      assert.match(await pageOf(metrics), /svc_contract_things[^\n]*4711/);
      value = 815;
      const page = await pageOf(metrics);
      assert.match(page, /svc_contract_things[^\n]*815/);
      assert.doesNotMatch(page, /svc_contract_things[^\n]*4711/);
    });

    test('pages that are asked for together are none of them older than the asking', async (t) => {
      const metrics = await made(t);
      let value = 0;
      metrics.show({ name: 'svc_contract_turns', type: 'counter', help: 'Turns.', read: () => value });
      const pages = await Promise.all(
        Array.from({ length: 8 }, async () => {
          const asked = ++value;
          return { asked, page: await pageOf(metrics) };
        }),
      );
      for (const { asked, page } of pages) {
        const shown = Number(/svc_contract_turns[^\n]*?(\d+)\s*$/m.exec(page.replaceAll(/^#.*$/gm, ''))?.[1]);
        assert.ok(shown >= asked, `${shown} where ${asked} was counted before`);
      }
    });
  });
}

async function pageOf(metrics: Metrics): Promise<string> {
  return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(await metrics.page()));
}
