import { createHash } from 'node:crypto';
import { ServerError } from '../../kernel/index.ts';
import type { CanisterRecord } from './canister-record.ts';
import type { ActorFiles, ManifestActors, UpgradeOptions, UpgradeReport } from './index.ts';
import { installerOf, type ManifestAssets } from './manifest-assets.ts';
import type { ManifestModules, ManifestSource } from './manifest-modules.ts';

interface ManifestFilesDependencies {
  readonly canisters: {
    named(name: string): CanisterRecord | undefined;
    /** There is no such actor because it could not be installed. */
    isRejected(name: string): boolean;
    upgrade(record: CanisterRecord, module: Uint8Array, options: UpgradeOptions): Promise<UpgradeReport>;
  };
  readonly sources: readonly ManifestSource[];
  /** Reads files afresh. */
  readonly modulesNow: () => ManifestModules;
  /** Installs an actor that was rejected, with what the manifest says of it now. */
  readonly install: (name: string) => Promise<void>;
  readonly assets: ManifestAssets;
}

export const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** The text of its `.did` file, if it is another than the actor was given: that one has to fit the module. */
export function newCandid(
  { givenCandid }: Pick<CanisterRecord, 'givenCandid'>,
  files: ActorFiles | undefined,
): string | undefined {
  return files?.candidText === givenCandid ? undefined : files?.candidText;
}

/** The manifest's actors as their files are while the host serves. */
export class ManifestFiles implements ManifestActors {
  readonly #needs: ManifestFilesDependencies;

  constructor(dependencies: ManifestFilesDependencies) {
    this.#needs = dependencies;
  }

  names(): readonly string[] {
    return this.#needs.sources.map(({ name }) => name);
  }

  async filesOf(name: string): Promise<readonly string[]> {
    const modules = this.#needs.modulesNow();
    const folders = this.#needs.assets.foldersOf(modules.sourceNamed(name));
    const files = await modules.filesNamed(name);
    return [...files, ...(await folders)];
  }

  async reload(name: string): Promise<'same' | 'reloaded' | 'installed'> {
    const { canisters, assets } = this.#needs;
    if (canisters.named(name) === undefined) {
      // The actor was deleted. Its id was given out, and other actors know it by that: only a start gives it another.
      if (!canisters.isRejected(name)) return 'same';
      await this.#needs.install(name);
      return 'installed';
    }
    const modules = this.#needs.modulesNow();
    const source = modules.sourceNamed(name);
    const files = await modules.readNamed(name);
    await assets.check(source);
    const record = canisters.named(name);
    // Deleted while its source was compiled.
    if (record === undefined) return 'same';
    if (record.damage !== undefined)
      throw new ServerError('missing', 'actor-rejected', `it was rejected: ${record.damage}`);
    const candidText = newCandid(record, files);
    const isSame = candidText === undefined && record.module?.hash === hashOf(files.module);
    if (!isSame)
      await canisters.upgrade(record, files.module, { argument: undefined, caller: installerOf(source), candidText });
    const changes = await assets.deploy(source);
    return isSame && changes.files === 0 ? 'same' : 'reloaded';
  }
}
