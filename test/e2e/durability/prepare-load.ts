/** Server for kills under load, with the actors that all of the load's clients need. */
import type { TestContext } from 'node:test';
import { seeded } from '../../support/seeded.ts';
import type { Actor, Host } from '../semantics/host.ts';
import { compileActor, Deployment, type DeploymentOptions } from './deployment.ts';
import { HAUL_FLAGS } from './haul.ts';
import { Load } from './load.ts';

const KEEPERS = ['list-a', 'list-b', 'bank-a', 'bank-b', 'chain-a', 'chain-b'] as const;
const KEYED = ['once-list', 'once-from', 'once-to'] as const;
const HAULERS = ['haul-a', 'haul-b', 'depot'] as const;

interface PreparedLoad {
  readonly deployment: Deployment;
  readonly load: Load;
  readonly host: Host;
}

/** Starts a server and makes its clients, which do nothing yet. */
export async function prepareLoad(
  t: TestContext,
  { args = [], ...options }: Omit<DeploymentOptions, 'modules'> = {},
): Promise<PreparedLoad> {
  const keeper = await compileActor('Keeper');
  const hauler = await compileActor('Hauler');
  const modules = {
    ...Object.fromEntries([...KEEPERS, ...KEYED].map((name) => [name, keeper])),
    'haul-a': hauler,
    'haul-b': hauler,
    // The depot's upgrades carry everything over, which takes time.
    depot: await compileActor('Hauler', 'classical'),
  };
  const deployment = await Deployment.create(t, { ...options, args: ['--verbose', ...HAUL_FLAGS, ...args], modules });
  const host = await deployment.start();
  const find = (name: string): Promise<Actor> => host.find(name);
  const [listA, listB, bankA, bankB, chainA, chainB, haulA, haulB, depot] = (await Promise.all(
    [...KEEPERS, ...HAULERS].map(find),
  )) as unknown as [Actor, Actor, Actor, Actor, Actor, Actor, Actor, Actor, Actor];
  const keyed = (await Promise.all(KEYED.map(find))) as unknown as readonly [Actor, Actor, Actor];
  const actors = {
    lists: [listA, listB],
    banks: [bankA, bankB],
    chain: [chainA, chainB],
    haul: { haulers: [haulA, haulB], depot },
    keyed,
  } as const;
  const load = new Load(actors, seeded(1));
  await load.prepare(host);
  return { deployment, load, host };
}
