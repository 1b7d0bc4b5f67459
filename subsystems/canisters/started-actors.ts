/**
 * A start: takes over what another process has stored, and then installs the manifest's actors; afterwards wakes the
 * rest, says what differs between manifest and state, and takes up files that change.
 *
 * Main thread. Has everything done by others; keeps what the manifest's files are.
 */
import { assert, ServerError } from '../../kernel/index.ts';
import type { AssetFolders } from '../assets/index.ts';
import type { ManifestActor } from '../manifest/index.ts';
import type { CanisterRecord } from './canister-record.ts';
import type { CanisterStore } from './canister-store.ts';
import type { ClientMessages } from './client-messages.ts';
import type { Deployments } from './deployments.ts';
import { type CheckedActor, checkManifest, type ManifestCheck } from './check-manifest.ts';
import type { ManifestActors } from './index.ts';
import { type InstallManifestDependencies, type InstalledManifest, installManifest } from './install-manifest.ts';
import { ManifestAssets } from './manifest-assets.ts';
import type { OperatedCanisters } from './operator-requests.ts';
import type { ServiceNames } from './service-names.ts';
import { type Recovery, recoverCanisters, type RecoveryDependencies } from './recover-canisters.ts';

type Shared = Omit<RecoveryDependencies, 'management' | 'signal'> &
  Omit<InstallManifestDependencies, 'canisters' | 'ids' | 'assets' | 'signal' | 'share'>;

interface StartedActorsNeeds extends Shared {
  readonly deployments: Deployments;
  readonly store: CanisterStore;
  readonly names: ServiceNames;
  readonly messages: ClientMessages;
  readonly folders: AssetFolders;
  readonly operator: Pick<OperatedCanisters, 'changeSettings'>;
  /** Somebody takes up what differs between manifest and state: it need not be told. */
  readonly followsFiles: boolean;
}

export class StartedActors implements ManifestActors, ManifestCheck {
  readonly #needs: StartedActorsNeeds;
  #manifest: InstalledManifest | undefined;
  /** Canisters that were stored and are to be woken. */
  #recovery: Recovery | undefined;
  #isEnding = false;

  constructor(needs: StartedActorsNeeds) {
    this.#needs = needs;
  }

  /** There are none before the manifest is installed. */
  names(): readonly string[] {
    return this.#manifest?.files.names() ?? [];
  }

  filesOf(name: string): Promise<readonly string[]> {
    return this.#files.filesOf(name);
  }

  reload(name: string): Promise<'same' | 'reloaded' | 'installed'> {
    return this.#files.reload(name);
  }

  readonly #named = (name: string): CanisterRecord | undefined => this.#needs.directory.findByName(name);

  #assets(): ManifestAssets {
    const { folders, messages } = this.#needs;
    return new ManifestAssets({ folders, messages, named: this.#named });
  }

  get #files(): ManifestActors {
    assert(this.#manifest !== undefined, 'the manifest is installed');
    return this.#manifest.files;
  }

  check(actors: readonly ManifestActor[]): AsyncIterable<CheckedActor> {
    const { ids } = this.#needs.directory;
    return checkManifest({ ...this.#needs, canisters: { named: this.#named }, ids, assets: this.#assets() }, actors);
  }

  /**
   * Installs what the manifest names, in its order; a name that will not load is announced (`REJECTED <name> <reason>`)
   * and the rest serve.
   */
  async install(progress: (note: string) => void, signal: AbortSignal): Promise<void> {
    // Without it nothing starts, even if nobody would miss it yet.
    const { deployments, directory, store, names, execution, operator } = this.#needs;
    const { management } = deployments;
    names.start();
    this.#recovery = store.isDurable
      ? await recoverCanisters({ ...this.#needs, management, signal }, progress)
      : undefined;
    if (names.isShared) {
      progress('comparing names with those of the service');
      await names.compare();
    }
    this.#manifest = await installManifest(
      {
        ...this.#needs,
        canisters: {
          place: (...given) => deployments.place(...given),
          named: this.#named,
          isRejected: (name) => directory.isRejected(name),
          upgrade: (...given) => deployments.upgrade(...given),
          giveFacts: (...given) => deployments.giveFacts(...given),
          changeSettings: (...given) => operator.changeSettings(...given),
        },
        ids: directory.ids,
        assets: this.#assets(),
        signal,
        share: async (environment) => {
          execution.shareEnvironment(environment);
          await this.#recovery?.bringBack();
        },
      },
      progress,
      (name, reason) => directory.reject(name, reason),
    );
    await store.settled();
    await names.settled();
  }

  /**
   * Does what a start leaves for later: wakes those that were stored and did not have to be awake, and deletes modules
   * that nobody uses.
   */
  finishStart(): void {
    const recovery = this.#recovery;
    this.#recovery = undefined;
    if (recovery !== undefined) void this.#finishStart(recovery);
  }

  async #finishStart(recovery: Recovery): Promise<void> {
    const isOver = (): boolean => this.#isEnding;
    await recovery.bringBackRest(isOver);
    const { log } = this.#needs;
    try {
      const count = await this.#needs.store.deleteLeftModules(isOver);
      if (count > 0) log.info(`deleted ${count} module(s) from the state that no actor uses`);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      if (!this.#isEnding) log.warn(`modules that no actor uses cannot be looked for: ${error.message}`);
    }
  }

  /** The one that is being woken is not waited for. */
  drain(): void {
    this.#isEnding = true;
  }

  /** Says which actors that were there before have another module in the manifest by now. */
  async compare(): Promise<void> {
    const manifest = this.#manifest;
    if (manifest === undefined) return;
    // The comparison holds the whole manifest: it is done once.
    const { compare, files } = manifest;
    this.#manifest = { files, compare: async () => undefined };
    if (!this.#needs.followsFiles) await compare();
  }
}
