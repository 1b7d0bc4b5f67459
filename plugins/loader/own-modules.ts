/**
 * A plugin's imports of `svc/…` resolve to this server's own modules, wherever the plugin is: beside an installed
 * package, in a folder without one, or beside another copy. Two copies would have two classes `ServerError`, and two
 * class containers that do not know each other.
 */
import { registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';

/** Exports of the package; package.json has the same for other importers. */
export const OWN_MODULES: Readonly<Record<string, URL>> = {
  'svc/plugin': new URL('../api/plugin.ts', import.meta.url),
  'svc/plugin/classes': new URL('../api/classes.ts', import.meta.url),
  'svc/plugin/storage': new URL('../api/storage.ts', import.meta.url),
  'svc/plugin/scheduler': new URL('../api/scheduler.ts', import.meta.url),
  'svc/contracts/storage': new URL('../api/contracts/storage.ts', import.meta.url),
  'svc/contracts/tables': new URL('../api/contracts/tables.ts', import.meta.url),
  'svc/contracts/commit-queue': new URL('../api/contracts/commit-queue.ts', import.meta.url),
  'svc/contracts/metrics': new URL('../api/contracts/metrics.ts', import.meta.url),
  'svc/contracts/codec': new URL('../api/contracts/codec.ts', import.meta.url),
  'svc/contracts/outcalls': new URL('../api/contracts/outcalls.ts', import.meta.url),
  'svc/contracts/execution': new URL('../api/contracts/execution.ts', import.meta.url),
  'svc/contracts/management-backend': new URL('../api/contracts/management-backend.ts', import.meta.url),
  'svc/contracts/auth': new URL('../api/contracts/auth.ts', import.meta.url),
  'svc/contracts/gateway': new URL('../api/contracts/gateway.ts', import.meta.url),
  'svc/contracts/inspector': new URL('../api/contracts/inspector.ts', import.meta.url),
  'svc/contracts/manifest': new URL('../api/contracts/manifest.ts', import.meta.url),
  'svc/contracts/metering': new URL('../api/contracts/metering.ts', import.meta.url),
  'svc/contracts/mops-closures': new URL('../api/contracts/mops-closures.ts', import.meta.url),
  'svc/contracts/openapi': new URL('../api/contracts/openapi.ts', import.meta.url),
  'svc/contracts/scheduler': new URL('../api/contracts/scheduler.ts', import.meta.url),
  'svc/instrument': new URL('../api/instrument.ts', import.meta.url),
  'svc/storage-postgres': new URL('../storage-postgres/index.ts', import.meta.url),
};

/** Marks an import to be resolved as if it were in a file of the working directory. */
const FROM_DIRECTORY = 'svc-plugin-from:';

interface Marked {
  readonly directory: string;
  readonly specifier: string;
}

let isRegistered = false;
/** Locations of plugins' modules, by the mark of their import. */
const found = new Map<string, string>();

function register(): void {
  if (isRegistered) return;
  isRegistered = true;
  registerHooks({
    resolve(specifier, context, next) {
      const own = Object.hasOwn(OWN_MODULES, specifier) ? OWN_MODULES[specifier] : undefined;
      if (own !== undefined) return { url: own.href, shortCircuit: true };
      if (!specifier.startsWith(FROM_DIRECTORY)) return next(specifier, context);
      const { directory, specifier: wanted } = JSON.parse(specifier.slice(FROM_DIRECTORY.length)) as Marked;
      const ours = Object.hasOwn(OWN_MODULES, wanted) ? OWN_MODULES[wanted] : undefined;
      const resolved =
        ours === undefined
          ? next(wanted, { ...context, parentURL: pathToFileURL(`${directory}/`).href })
          : { url: ours.href, shortCircuit: true };
      found.set(specifier, resolved.url);
      return resolved;
    },
  });
}

/** A module that was asked for; `url` is undefined if it was not found. */
interface Imported {
  readonly url: string | undefined;
  /** The module's exports, or the error of loading it. */
  readonly outcome: Promise<{ readonly exports: Readonly<Record<string, unknown>> } | { readonly error: unknown }>;
}

/** Imports a package by its name, or a module by its URL, as a file in `directory` would. */
export function importFrom(directory: string, specifier: string): Imported {
  register();
  const marked = FROM_DIRECTORY + JSON.stringify({ directory, specifier } satisfies Marked);
  const loading = import(marked) as Promise<Readonly<Record<string, unknown>>>;
  const outcome = loading.then(
    (exports) => ({ exports }),
    (error: unknown) => ({ error }),
  );
  return {
    get url() {
      return found.get(marked);
    },
    outcome,
  };
}
