/** Composes the server of a command line: which plugins it has, in which order, and what each is told. */
import {
  createKernel,
  type Kernel,
  type Logger,
  type Plugin,
  ServerError,
  systemClock,
  systemRandom,
} from '../kernel/index.ts';
import { builtinPlugins } from '../plugins/index.ts';
import type { LoadedPlugin } from '../plugins/loader/index.ts';
import type { Request } from './load.ts';
import { refuse } from './terminal.ts';

export type ServeRequest = Extract<Request<LoadedPlugin>, { kind: 'serve' }>;

interface Composed {
  readonly plugins: readonly Plugin[];
  readonly sections: Readonly<Record<string, unknown>>;
}

/** Returns the kernel with all plugins, or the exit code if it cannot be made, after reporting the reason. */
export async function makeKernel(request: ServeRequest, log: Logger): Promise<Kernel | number> {
  const { plugins, sections } = await compose(request, builtinPlugins);
  try {
    return createKernel({
      plugins,
      disabled: request.disabled,
      config: sections,
      ambient: { clock: systemClock, random: systemRandom, logger: log },
    });
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    // The server's own plugins alone always have a boot plan, so this is the user's mistake.
    return refuse(error.message.split('\n'));
  }
}

/** Returns the plugins of this server, including those from outside, and the configuration of each. */
async function compose(
  { config, loaded, sections, restore, restoreArchive, needed }: ServeRequest,
  own: readonly Plugin[],
): Promise<Composed> {
  const { archive } = config.storage;
  const builtin = archive.directory === undefined ? own : await withArchive(own);
  const follow = restoreArchive?.follows === true ? restoreArchive.archive : undefined;
  const known = { ...config, archive, storage: { ...config.storage, follow } };
  if (loaded.length === 0) return { plugins: builtin, sections: known };
  const { composePlugins } = await import('../plugins/loader/index.ts');
  const { ReadableBackup } = await import('../subsystems/storage/backup-file.ts');
  const backup = restore === undefined ? undefined : new ReadableBackup(restore.file);
  const { plugins, routes } = composePlugins({ builtin, loaded, backup, needed });
  return { plugins, sections: { ...known, ...sections, http: { ...config.http, pluginRoutes: routes } } };
}

/** The archive is loaded only where there is one; the last plugin is the listener. */
async function withArchive(own: readonly Plugin[]): Promise<readonly Plugin[]> {
  const { archivePlugin } = await import('../plugins/archive.ts');
  return [...own.slice(0, -1), archivePlugin, ...own.slice(-1)];
}
