/** Servers under test: started with as many copies of the actors as a ratio asks for, or running already. */
import { writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { refuse } from '../../options.ts';
import type { Persistence } from '../../../subsystems/compiler/motoko-compiler.ts';
import { COUNTER, compiled, manifestOf } from '../actor-fixtures.ts';
import { startSvc, type SvcProcess } from '../svc-process.ts';
import { type LiveCapOptions, manifestActors } from './options.ts';
import type { Target } from './traffic.ts';

const PEER = fileURLToPath(new URL('../../fixtures/peer.mo', import.meta.url));
/** Keys of a manifest's actor that hold a path. */
const PATHS = ['main', 'wasm', 'candid'];

/** A server whose actors can be called. */
export interface Host {
  readonly origin: string;
  readonly targets: readonly Target[];
}

export interface StartedHost extends Host, AsyncDisposable {}

interface HostOptions extends Pick<LiveCapOptions, 'liveCap' | 'manifest' | 'flags' | 'kinds' | 'token'> {
  /** Name of the state directory and the manifest. */
  readonly name: string;
  readonly hosted: number;
  readonly folder: string;
  readonly persistence: Persistence;
  /** Replaces a part of the server. */
  readonly plugin: string | undefined;
}

/** Starts a server; ends the benchmark with the server's own message if it refuses to start. */
export async function startHost(options: HostOptions): Promise<StartedHost> {
  const { name, folder, liveCap, flags, plugin, kinds, token } = options;
  const manifest = await writeManifest(options);
  const args = ['--state', join(folder, `state-${name}`), '--live-cap', String(liveCap), ...flags];
  if (plugin !== undefined) args.push('--plugin', plugin);
  let svc: SvcProcess;
  try {
    svc = await startSvc({ manifest, args });
  } catch (error) {
    return refuse(
      `the server ${plugin === undefined ? '' : `with --plugin ${plugin} `}did not start: ${(error as Error).message}`,
    );
  }
  await using guard = new AsyncDisposableStack();
  guard.use(svc);
  const targets = await targetsOf(svc.origin, kinds, token);
  const started = guard.move();
  return { origin: svc.origin, targets, [Symbol.asyncDispose]: () => started.disposeAsync() };
}

async function writeManifest({ manifest, hosted, folder, name, persistence, kinds }: HostOptions): Promise<string> {
  if (manifest === undefined) {
    const hasCalls = kinds.some(({ method, share }) => method === 'incOf' && share > 0);
    return manifestOf(folder, name, await compiled(hasCalls ? PEER : COUNTER, persistence), hosted);
  }
  const path = join(folder, `${name}.json`);
  await writeFile(
    path,
    JSON.stringify({ actors: copiesOf(manifestActors(manifest), hosted, dirname(resolve(manifest))) }),
  );
  return path;
}

/** Returns as many actors as are wanted: those of the manifest, then their copies, `NAME-2` and so on. */
export function copiesOf(
  actors: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
  wanted: number,
  folder: string,
): Readonly<Record<string, unknown>> {
  const originals = Object.entries(actors);
  const all = Array.from({ length: wanted }, (_, at): readonly [string, unknown] => {
    const [name = '', actor = {}] = originals[at % originals.length] ?? [];
    const copy = Math.floor(at / originals.length) + 1;
    const moved = Object.entries(actor).map(([key, value]): readonly [string, unknown] => [
      key,
      PATHS.includes(key) && typeof value === 'string' ? resolve(folder, value) : value,
    ]);
    return [copy === 1 ? name : `${name}-${copy}`, Object.fromEntries(moved)];
  });
  return Object.fromEntries(all);
}

interface Inspected {
  readonly name: string;
  readonly principal: string;
  readonly methods: readonly { readonly name: string; readonly kind: string }[];
}

/** Returns the actors of a running server that have one of the methods; refuses if no actor has one of the methods. */
export async function targetsOf(
  origin: string,
  kinds: LiveCapOptions['kinds'],
  token: string | undefined,
): Promise<readonly Target[]> {
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const response = await fetch(`${origin}/inspect`, { headers }).catch((error: unknown) =>
    refuse(`${origin} does not answer: ${(error as { cause?: Error }).cause?.message ?? (error as Error).message}`),
  );
  if (!response.ok) {
    const advice = response.status === 401 ? '; the variable SVC_TOKEN has to be its token' : '';
    return refuse(`${origin}/inspect answers ${response.status} ${(await response.text()).trim()}${advice}`);
  }
  const inspected = (await response.json()) as readonly Inspected[];
  const wanted = kinds.filter(({ share }) => share > 0).map(({ method }) => method);
  const targets = inspected.map(({ name, principal, methods }) => ({
    name,
    principal,
    methods: new Map(methods.map((method) => [method.name, method.kind])),
  }));
  for (const method of wanted) {
    if (targets.some(({ methods }) => methods.has(method))) continue;
    const there = new Set(targets.flatMap(({ methods }) => [...methods.keys()]));
    return refuse(`no actor has a method ${method}; there are: ${[...there].slice(0, 20).join(' ') || 'none'}`);
  }
  return targets.filter(({ methods }) => wanted.some((method) => methods.has(method)));
}
