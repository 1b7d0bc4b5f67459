/**
 * The server from command line to exit code: reads flags and environment, and serves (serve.ts) or prints. Exit codes:
 * 0 after a graceful stop, 1 when the start or a stop failed, 2 for bad usage.
 *
 * All imports but those of the terminal and the version happen inside `run`, after the cache of compiled code is set
 * up, and only for command lines that need them.
 */
import { fileURLToPath } from 'node:url';
import type { ConfiguredPlugin } from './plugin-options.ts';
import type { LoadedPlugin } from '../plugins/loader/index.ts';
import type { Request } from './load.ts';
import type { RunOptions } from './serve.ts';
import { hasColors, refuse, tell } from './terminal.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Read before anything takes time: once the parent is gone, the number differs. */
const PARENT = process.ppid;

/** Runs one server from command line to exit code. */
export function run(options: RunOptions): Promise<number> {
  return runWith(process.argv.slice(2), options);
}

/** Runs one server as a network of `icp`, with the flags of its launcher. */
export async function launch(options: RunOptions): Promise<number> {
  const { launchNetwork } = await import('./network-launcher.ts');
  return launchNetwork(process.argv.slice(2), process.env, (argv) => runWith(argv, options));
}

async function runWith(argv: readonly string[], given: RunOptions): Promise<number> {
  const options = { ...given, group: takeGroup(process.env) };
  const { VERSION, readBuild } = await import('./version.ts');
  // The question that tools ask most often needs neither the server's code nor the cache of it.
  if (argv.length === 1 && argv[0] === '--version') {
    process.stdout.write(`${VERSION}\n`);
    return 0;
  }
  // Nor does this one, which nothing in the environment changes.
  if (argv.length === 1 && argv[0] === '--help') {
    await printHelp(VERSION, []);
    return 0;
  }
  const { keepCompiledCode } = await import('./code-cache.ts');
  keepCompiledCode(process.env, ROOT);
  const { loadConfig } = await import('./load.ts');
  const { PARTS } = await import('./parts.ts');
  const directory = workingDirectory();
  if (directory === undefined) {
    process.stderr.write('svc: the working directory is not there any more: change to another one\n');
    return 1;
  }
  const request = await loadConfig({
    argv,
    environment: process.env,
    pluginNames: PARTS.map(({ name }) => name),
    version: VERSION,
    build: await readBuild(),
    directory,
    root: ROOT,
    async loadPlugins(requests) {
      const { loadPlugins } = await import('../plugins/loader/index.ts');
      const { builtinPlugins } = await import('../plugins/index.ts');
      return loadPlugins(requests, { directory, builtin: builtinPlugins });
    },
  });
  return act(request, options);
}

/** Does what the command line asks for; returns the exit code. */
async function act(
  request: Request<LoadedPlugin>,
  options: RunOptions & { readonly group: string | undefined },
): Promise<number> {
  const { VERSION } = await import('./version.ts');
  switch (request.kind) {
    case 'help':
      await printHelp(VERSION, request.loaded);
      await tell(request.problems);
      return 0;
    case 'print':
      process.stdout.write(request.text);
      return 0;
    case 'token':
      return printNewToken(request.name);
    case 'version':
      process.stdout.write(`${VERSION}\n`);
      return 0;
    case 'refused':
      return refuse(request.problems);
    case 'replay': {
      const { replayFile } = await import('./replay-file.ts');
      return replayFile(request);
    }
    case 'serve': {
      if (request.task === 'check') {
        const { check } = await import('./check.ts');
        return check(request);
      }
      if (request.task === 'capacity') {
        const { capacity } = await import('./capacity.ts');
        return capacity(request, { root: ROOT, environment: process.env });
      }
      const { serve } = await import('./serve.ts');
      return serve(request, {
        ...options,
        environment: process.env,
        root: ROOT,
        isScriptOfNpm: process.env['npm_lifecycle_event'] !== undefined,
        parent: isBehindShellOfNpx(process.env) ? PARENT : undefined,
      });
    }
  }
}

/** Takes what another process of the node has put into the environment of a shard process (`node-part.ts`). */
function takeGroup(environment: Record<string, string | undefined>): string | undefined {
  const { SVC_SHARD_PROCESS: group } = environment;
  delete environment['SVC_SHARD_PROCESS'];
  return group;
}

async function printNewToken(name: string): Promise<number> {
  const { newTokenText } = await import('../subsystems/auth/new-token.ts');
  const text = newTokenText(name);
  if (text === undefined)
    return refuse(['--make-token: expected a letter or _ and up to 63 letters, digits, _, . or -, such as grafana']);
  process.stdout.write(text);
  return 0;
}

async function printHelp(version: string, loaded: readonly ConfiguredPlugin[]): Promise<void> {
  const { helpText } = await import('./help.ts');
  const { PARTS } = await import('./parts.ts');
  // Undefined if stdout is no terminal, which Node's types do not say.
  const columns: number | undefined = process.stdout.columns;
  const hasColor = hasColors(process.stdout);
  process.stdout.write(helpText({ version, width: columns ?? 80, hasColor, parts: PARTS, loaded }));
}

/** Returns undefined if the directory has been deleted. */
function workingDirectory(): string | undefined {
  try {
    return process.cwd();
  } catch {
    return undefined;
  }
}

/**
 * Returns true if npx started the server: `npx svc` starts a shell, which starts the server and waits. npx sends
 * SIGTERM to that shell alone, and the shell dies of it: its end is the server's signal.
 */
function isBehindShellOfNpx(environment: Readonly<Record<string, string | undefined>>): boolean {
  return environment['npm_lifecycle_event'] === 'npx';
}

// Runs the sources as they are. The command is `svc.js`, which runs a bundle of them if it can.
if (import.meta.main) {
  process.stdout.on('error', () => undefined);
  process.exit(await run({ notBundled: 'config/main.ts was started', isHangupIgnored: false }));
}
