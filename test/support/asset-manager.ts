/** `@dfinity/assets` as it comes from npm, with the agent that it asks for. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import type { HttpAgent, SignIdentity } from 'icp-core-6/agent';
import { INSTALL, plainEnvironment } from './packages.ts';

const run = promisify(execFile);
const VERSION = '3.4.3';
const PACKAGES = ['assets', 'agent', 'candid', 'principal'].map((name) => `@dfinity/${name}@${VERSION}`);

interface StoreOptions {
  readonly fileName?: string;
  readonly path?: string;
  readonly contentType?: string;
  readonly contentEncoding?: string;
  readonly headers?: readonly (readonly [string, string])[];
}

interface Asset {
  readonly contentType: string;
  readonly length: number;
  toUint8Array(): Promise<Uint8Array>;
  isCertified(): Promise<boolean>;
  verifySha256(): Promise<boolean>;
}

interface Batch {
  store(bytes: Uint8Array, options: StoreOptions): Promise<string>;
  delete(key: string): void;
  commit(): Promise<void>;
}

/** The part of AssetManager that tests use. */
interface AssetManager {
  store(file: Uint8Array | string, options?: StoreOptions): Promise<string>;
  list(): Promise<readonly { readonly key: string; readonly content_type: string }[]>;
  get(key: string, accepted?: readonly string[]): Promise<Asset>;
  delete(key: string): Promise<void>;
  clear(): Promise<void>;
  batch(): Batch;
}

interface ManagerOptions {
  readonly agent: HttpAgent;
  readonly canisterId: string;
  readonly maxSingleFileSize?: number;
  readonly maxChunkSize?: number;
}

export interface AssetTools {
  /** Folder in which programs find the packages. */
  readonly directory: string;
  readonly agentOf: (host: string, identity?: SignIdentity) => Promise<HttpAgent>;
  readonly managerOf: (options: ManagerOptions) => AssetManager;
}

/** Installs the packages below the folder. */
export async function installAssetTools(directory: string): Promise<AssetTools> {
  const args = [...INSTALL, '--prefix', directory, ...PACKAGES, '@noble/hashes@1.8.0'];
  await run('npm', args, { env: plainEnvironment() });
  const load = async (name: string): Promise<unknown> => {
    const url = pathToFileURL(join(directory, 'node_modules/@dfinity', name, 'lib/esm/index.js'));
    return (await import(url.href)) as unknown;
  };
  const assets = (await load('assets')) as { readonly AssetManager: new (options: ManagerOptions) => AssetManager };
  const agent = (await load('agent')) as { readonly HttpAgent: typeof HttpAgent };
  return {
    directory,
    agentOf: (host, identity) =>
      agent.HttpAgent.create({ host, shouldFetchRootKey: true, ...(identity && { identity }) }),
    managerOf: (options) => new assets.AssetManager(options),
  };
}
