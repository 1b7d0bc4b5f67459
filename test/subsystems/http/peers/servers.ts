import type { TestContext } from 'node:test';
import { systemClock } from '../../../../kernel/index.ts';
import { LinkedCluster } from '../../../../subsystems/cluster/linked-cluster.ts';
import { MemoryService } from '../../../support/memory-service.ts';
import { CounterCanister, type HttpHost, type HttpHostOptions, RecordingLog, startHttpHost } from '../counter-host.ts';

const KEY = Buffer.from('the key that all servers of the service have');

interface LinkedServer extends HttpHost {
  readonly cluster: LinkedCluster;
}

/** Starts a server of the service that owns a shard, with none of the counters that its host begins with. */
export async function startLinked(
  t: TestContext,
  service: MemoryService,
  shard: number,
  options: HttpHostOptions = {},
  stop: () => void = () => undefined,
): Promise<LinkedServer> {
  const cluster = new LinkedCluster(
    { store: service.join(shard), clock: systemClock, log: new RecordingLog() },
    { host: '127.0.0.1', port: 0, key: KEY, stop },
  );
  const host = await startHttpHost(t, { ownerWaitMs: 200, ...options, cluster });
  host.canisters.canisters.splice(0);
  await cluster.start();
  t.after(() => cluster.close());
  const server = { ...host, cluster };
  const { canisters } = host;
  canisters.install = async (name, { length: bytes }, given) => {
    canisters.installed.push({ name, bytes, options: given });
    return addCounter(server, service, name);
  };
  return server;
}

/** Gives a server a counter of its shard, with a name that the service knows. */
export function addCounter(
  { canisters, cluster }: LinkedServer,
  service: MemoryService,
  name: string,
): CounterCanister {
  const counter = new CounterCanister(name, canisters.canisters.length + 1, true, cluster.shard);
  canisters.canisters.push(counter);
  service.names.set(name, counter.id);
  return counter;
}

/** Starts servers for the first two shards of a service, which know each other. */
export async function startTwo(
  t: TestContext,
  shards = 2,
  options: HttpHostOptions = {},
): Promise<{ readonly service: MemoryService; readonly a: LinkedServer; readonly b: LinkedServer }> {
  const service = new MemoryService(shards);
  const [a, b] = [await startLinked(t, service, 0, options), await startLinked(t, service, 1, options)];
  await a.cluster.forget('');
  return { service, a, b };
}
