import { type CanisterRecord } from './canister-record.ts';
import { type ActorFiles, type InstallOptions, type UpgradeOptions, type UpgradeReport } from './index.ts';
import { at, type Logger, messageOf, ServerError, unlessAborted } from '../../kernel/index.ts';
import { type GivenFacts, principalFromText, principalToText, type CanisterIds } from '../ic/index.ts';
import type { Compiler } from '../compiler/index.ts';
import type { ModuleStore } from '../execution/index.ts';
import type { Manifest, ManifestActor } from '../manifest/index.ts';
import { hashOf, ManifestFiles } from './manifest-files.ts';
import type { ManifestAssets } from './manifest-assets.ts';
import { followControllers, controlOf } from './manifest-controllers.ts';
import { followManifest } from './open-methods.ts';
import type { ServiceNames } from './service-names.ts';
import type { RehearsedUpgrades } from './rehearsed-upgrades.ts';
import { candidTextOf, ManifestModules, type ManifestSource } from './manifest-modules.ts';

/** Where another actor of the manifest is, as tools of the Internet Computer name it. */
const PUBLIC_ID = 'PUBLIC_CANISTER_ID:';
/**
 * So many actors of the manifest are on their way through the compiler behind the one that is waited for: it has two
 * threads at most.
 */
const EXPECTED = 2;
type Ids = ReadonlyMap<string, Uint8Array>;

export interface InstallManifestDependencies {
  readonly canisters: {
    place(name: string, module: Uint8Array, options: InstallOptions): Promise<CanisterRecord>;
    named(name: string): CanisterRecord | undefined;
    isRejected(name: string): boolean;
    upgrade(record: CanisterRecord, module: Uint8Array, options: UpgradeOptions): Promise<UpgradeReport>;
    giveFacts(record: CanisterRecord, given: Partial<GivenFacts>): void;
    /** Changes settings, JSON of `canister_settings`; resolves when that is durable. */
    changeSettings(record: CanisterRecord, settings: string): Promise<unknown>;
  };
  readonly ids: CanisterIds;
  readonly names: Pick<ServiceNames, 'isShared' | 'reserve' | 'shardElsewhere'>;
  readonly manifest: Manifest;
  readonly compiler: Pick<Compiler, 'compile' | 'sourcesOf'>;
  readonly execution: Pick<ModuleStore, 'prepare' | 'expect'>;
  readonly log: Logger;
  readonly assets: ManifestAssets;
  readonly rehearsals: Pick<RehearsedUpgrades, 'ask'>;
  /** Aborted when the server is told to stop meanwhile. */
  readonly signal: AbortSignal;
  /** Variables for every canister of the host; resolves when those that were there before have them. */
  readonly share: (environment: ReadonlyMap<string, string>) => Promise<void>;
}

/**
 * Tells of actors whose files hold other modules than they have. Compiling takes a while, and nobody has to wait for
 * it.
 */
type ManifestComparison = () => Promise<void>;

export interface InstalledManifest {
  readonly compare: ManifestComparison;
  readonly files: ManifestFiles;
}

/**
 * Installs every actor of the manifest; where a service has several shards, those of this server's. What fails is
 * announced and given to `reject`; a manifest that cannot be read fails the start.
 */
export async function installManifest(
  dependencies: InstallManifestDependencies,
  progress: (note: string) => void,
  reject: (name: string, reason: string) => void,
): Promise<InstalledManifest> {
  const { canisters, compiler, execution, log, assets, signal, share } = dependencies;
  const { all, actors, principals } = await placedHere(dependencies, await readActors(dependencies, progress));
  await share(new Map([...principals].map(([name, principal]) => [PUBLIC_ID + name, principal])));
  // No more than this is kept for as long as the host serves: there may be very many actors.
  const sources = actors.map(sourceOf);
  const imported = actors === all ? sources : all.map(sourceOf);
  const principalOf = (name: string): string | undefined => principals.get(name);
  const modulesNow = (): ManifestModules =>
    new ManifestModules({ compiler, execution, log, actors: imported, principalOf });
  const modules = modulesNow();
  const readFiles = (name: string): Promise<ActorFiles> => assets.read(name, modulesNow());
  const there: ManifestSource[] = [];
  const install = async (actor: ManifestActor, { module, candidText }: ActorFiles): Promise<void> => {
    const { args: argument, cycles, env, hasCertificate, isCertified = false, name } = actor;
    const principal = principalOf(name);
    const id = principal ? principalFromText(principal) : undefined;
    const facts = { argument, ...controlOf(actor), cycles, candidText, env, hasCertificate, isCertified };
    const record = await canisters.place(name, module, { ...facts, id, readFiles });
    if (actor.openMethods !== undefined) followManifest(record, actor.openMethods, log);
  };
  for (const [index, actor] of actors.entries()) {
    if (signal.aborted) break;
    const place = `(${index + 1} of ${actors.length})`;
    const known = canisters.named(actor.name);
    if (known !== undefined) {
      // An actor that is there is not reinstalled; only an upgrade takes the file as it is now.
      known.readFiles = readFiles;
      there.push(at(sources, index, 'source'));
      if (known.damage !== undefined) continue;
      await takeFacts({ canisters, log }, known, actor);
      await deployFolder({ assets, log, progress }, actor, place);
      continue;
    }
    for (const next of sources.slice(index, index + 1 + EXPECTED))
      if (canisters.named(next.name) === undefined) modules.expect(next, signal);
    try {
      progress(`${actor.source.kind === 'main' ? 'compiling' : 'reading'} ${actor.name} ${place}`);
      const module = await unlessAborted(signal, modules.moduleOf(actor));
      const candidText = await candidTextOf(actor);
      if (actor.assets !== undefined) progress(`looking through the files of ${actor.name} ${place}`);
      await assets.check(actor);
      if (signal.aborted) break;
      progress(`installing ${actor.name} ${place}`);
      await install(actor, { module, candidText });
      await deployFolder({ assets, log, progress }, actor, place);
    } catch (error) {
      if (signal.aborted && error === signal.reason) break;
      if (!(error instanceof ServerError)) throw error;
      reject(actor.name, messageOf(error));
    }
  }
  const files = new ManifestFiles({
    canisters,
    sources,
    modulesNow,
    assets,
    // Files of an installation are not kept: they are read again.
    install: async (name) => {
      const read = await readFiles(name);
      await install(await declared(dependencies.manifest, name), read);
      await read.taken?.();
    },
  });
  return { compare: comparison({ canisters, log }, modules, there), files };
}

/** Gives an actor that is there what is the operator's to say, as the file is: its state does not depend on it. */
async function takeFacts(
  { canisters, log }: Pick<InstallManifestDependencies, 'canisters' | 'log'>,
  known: CanisterRecord,
  actor: ManifestActor,
): Promise<void> {
  const { hasCertificate, isCertified = false, openMethods } = actor;
  // Whichever it was given stays when the key goes.
  if (hasCertificate || isCertified) canisters.giveFacts(known, { hasCertificate, isCertified });
  followManifest(known, openMethods, log);
  await followControllers({ canisters, log }, known, actor);
}

interface PlacedActors {
  readonly all: readonly ManifestActor[];
  /** Actors that this server has, or is to install. */
  readonly actors: readonly ManifestActor[];
  /** The principals of all by their names. */
  readonly principals: ReadonlyMap<string, string>;
}

/**
 * Tells which of the manifest's actors belong here; starts the threads of those that are to come: the first one is
 * compiled meanwhile.
 */
async function placedHere(
  { canisters, ids, names, execution }: InstallManifestDependencies,
  all: readonly ManifestActor[],
): Promise<PlacedActors> {
  const reserved = names.isShared ? await names.reserve(all.map(({ name }) => name)) : undefined;
  const isThere = ({ name }: ManifestActor): boolean => canisters.named(name) !== undefined;
  const isElsewhere = (id: Uint8Array | undefined): boolean =>
    id !== undefined && names.shardElsewhere(id) !== undefined;
  const isHere = (actor: ManifestActor): boolean => isThere(actor) || !isElsewhere(reserved?.get(actor.name));
  const actors = reserved === undefined ? all : all.filter(isHere);
  const missing = actors.filter((actor) => !isThere(actor)).length;
  if (missing > 0) execution.expect(missing);
  return { all, actors, principals: publicIds(all, { canisters, ids, reserved }) };
}

async function readActors(
  { manifest, rehearsals }: Pick<InstallManifestDependencies, 'manifest' | 'rehearsals'>,
  progress: (note: string) => void,
): Promise<readonly ManifestActor[]> {
  progress('reading the manifest');
  const actors = await manifest.read();
  for (const { name, rehearse } of actors) rehearsals.ask(name, rehearse);
  return actors;
}

interface PrincipalNeeds {
  readonly canisters: Pick<InstallManifestDependencies['canisters'], 'named'>;
  readonly ids: CanisterIds;
  /** Ids that the service has given to all of them; undefined: this host gives them. */
  readonly reserved?: Ids | undefined;
}

/** Gives all principals first, in the manifest's order: an actor may name one that comes after it. */
export function publicIds(
  actors: readonly ManifestActor[],
  { canisters, ids, reserved }: PrincipalNeeds,
): ReadonlyMap<string, string> {
  const idOf = (name: string): Uint8Array => canisters.named(name)?.id ?? reserved?.get(name) ?? ids.next();
  return new Map(actors.map(({ name }) => [name, principalToText(idOf(name))]));
}

/** Returns what the manifest says of an actor now. Rejects with ServerError `actor-missing`. */
async function declared(manifest: Manifest, name: string): Promise<ManifestActor> {
  const actor = (await manifest.read()).find((known) => known.name === name);
  if (actor !== undefined) return actor;
  throw new ServerError('missing', 'actor-missing', `the manifest has no actor ${name} any more`);
}

export function sourceOf({ name, source, candidFile, assets }: ManifestActor): ManifestSource {
  return { name, source, candidFile, ...(assets && { assets }) };
}

/** Brings a site up to date with its folder; one that cannot be goes on as it is. */
async function deployFolder(
  { assets, log, progress }: Pick<InstallManifestDependencies, 'assets' | 'log'> & { progress: (note: string) => void },
  actor: ManifestActor,
  place: string,
): Promise<void> {
  if (actor.assets === undefined) return;
  progress(`deploying the files of ${actor.name} ${place}`);
  try {
    const { files } = await assets.deploy(actor);
    if (files > 0) log.info(`deployed ${files} file(s) of ${actor.name}`);
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    log.announce(`WARNING ${actor.name} serves its files as they were: ${messageOf(error)}`);
  }
}

/** Apart, for what it holds is let go of when it has ended: what reads files for upgrades stays. */
function comparison(
  { canisters, log }: Pick<InstallManifestDependencies, 'canisters' | 'log'>,
  modules: ManifestModules,
  there: readonly ManifestSource[],
): ManifestComparison {
  return async () => {
    const hashes = new Map<string, string>();
    for (const actor of there) {
      try {
        // Thousands of actors may have one module; a source is compiled once for each.
        const hash = hashes.get(actor.source.file) ?? hashOf(await modules.moduleOf(actor));
        if (actor.source.kind === 'wasm') hashes.set(actor.source.file, hash);
        const known = canisters.named(actor.name);
        if (known === undefined || known.damage !== undefined || known.module?.hash === hash) continue;
        log.announce(
          `WARNING ${actor.name} has another module in the manifest than in the state: POST /upgrade/${actor.name} with an empty body takes it up`,
        );
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        // The server stops, which says nothing about the file.
        if (error.code === 'compiler-closed') return;
        log.warn(`an upgrade of ${actor.name} from its file would fail now: ${messageOf(error)}`);
      }
    }
  };
}
