import { Clock, definePlugin, Logger } from '../kernel/index.ts';
import { ManifestActors } from '../subsystems/canisters/index.ts';
import { HotReload } from '../subsystems/hot-reload/index.ts';
import { Reloader } from '../subsystems/hot-reload/reloader.ts';

export const hotReloadPlugin = definePlugin({
  name: 'hot-reload',
  provides: HotReload,
  requires: { actors: ManifestActors, clock: Clock, log: Logger },
  neededBecause: 'without --watch it does nothing',
  create: (granted, { config }: { readonly config: { readonly isWatching: boolean } }) => new Reloader(granted, config),
  ready: (reloader) => reloader.start(),
  // Stops here, before the plugins to which it brings work stop.
  drain: (reloader) => reloader.stop(),
});
