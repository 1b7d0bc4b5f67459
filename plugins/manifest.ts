import { definePlugin } from '../kernel/index.ts';
import { Manifest } from '../subsystems/manifest/index.ts';
import { createManifest, type ManifestOptions } from '../subsystems/manifest/manifest-file.ts';

export const manifestPlugin = definePlugin({
  name: 'manifest',
  provides: Manifest,
  requires: {},
  create: (_granted, { config }: { readonly config: ManifestOptions }) => createManifest(config),
  // Nothing is installed at the start; POST /install still works.
  disabled: () => ({ read: () => Promise.resolve([]) }),
});
