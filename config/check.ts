/**
 * `--check`: does the work of a start and starts nothing, for a pipeline that deploys. It reads the manifest, compiles
 * and checks each module, and reads the whole state without changing it, or the backup of `--restore`. Flags and
 * plugins are checked by then.
 *
 * Each finding is a line on stdout, or with `--log-json` all of them are one JSON object. Exit codes: 0 if a start
 * would succeed, 1 if not.
 */
import { Clock, type Kernel, Logger, messageOf, Random, Readiness, ServerError } from '../kernel/index.ts';
import type { LoadedPlugin } from '../plugins/loader/index.ts';
import { createBearerAuth } from '../subsystems/auth/bearer-auth.ts';
import { readTokenFile } from '../subsystems/auth/token-file.ts';
import { ManifestCheck } from '../subsystems/canisters/check-manifest.ts';
import { AccessLog } from '../subsystems/http/access-log.ts';
import { AuditFile } from '../subsystems/http/audit-file.ts';
import { Manifest, type ManifestActor } from '../subsystems/manifest/index.ts';
import { ProjectClosures } from '../subsystems/mops-closure/project-closures.ts';
import { checkRecording, readRecording } from '../subsystems/outcalls/recording-file.ts';
import { verifyBackup } from '../subsystems/storage/restore.ts';
import { verifyState } from '../subsystems/storage/verify-state.ts';
import { makeKernel, type ServeRequest } from './make-kernel.ts';
import { indented } from './printable.ts';

interface Finding {
  /** `flags`, `plugin <name>`, `parts`, `manifest`, `actor <name>`, `outcalls`, `backup`, `state`, and more. */
  readonly what: string;
  readonly ok: boolean;
  readonly text: string;
}

/** Parts that answer before anything has started, so that plugins which need no others may be asked. */
const AMBIENT: ReadonlySet<string> = new Set([Clock, Random, Logger, Readiness].map(({ name }) => name));

/** Checks, prints what was found, and returns the exit code. */
export async function check(request: ServeRequest): Promise<number> {
  const findings: Finding[] = [{ what: 'flags', ok: true, text: ['understood', ...request.warnings].join('; ') }];
  findings.push(...(await checkTokens(request)), ...(await checkJwts(request)));
  const hasAuth = findings.every(({ ok }) => ok);
  const log = new QuietLog();
  const kernel = await makeKernel(checked(request, hasAuth), log);
  if (typeof kernel === 'number') return kernel;
  try {
    findings.push(...(await checkParts(kernel, request, log)));
  } finally {
    // A plugin that fails here fails a stop, and no start.
    await kernel.stop().catch(() => undefined);
  }
  findings.push(...(await checkFiles(request)), await checkState(request));
  const { host, port } = request.config.http;
  findings.push({ what: 'listener', ok: true, text: `${host} port ${port}, which may be in use: it is not tried` });
  const isOk = findings.every(({ ok }) => ok);
  const lines = request.log.isJson
    ? [JSON.stringify({ ok: isOk, findings })]
    : findings.map(({ what, ok, text }) => indented(`${ok ? 'ok' : 'FAILED'} ${what}: ${text}`));
  process.stdout.write(`${lines.join('\n')}\n`);
  return isOk ? 0 : 1;
}

/**
 * Returns the request with what a check leaves alone: nothing is written to the state directory (what was compiled is
 * kept in the user's cache, as ever), and tokens that are wrong have been told.
 */
function checked(request: ServeRequest, hasAuth: boolean): ServeRequest {
  const { auth, compiler, execution } = request.config;
  const config = {
    ...request.config,
    auth: hasAuth ? auth : { ...auth, tokensFile: undefined, jwt: undefined },
    compiler: { ...compiler, cacheDirectory: undefined, isKeptWarm: false },
    execution: { ...execution, cacheDirectory: undefined },
  };
  return { ...request, config };
}

/** Keeps warnings, for the finding that is being made. */
class QuietLog implements Logger {
  readonly #warnings: string[] = [];

  warn(text: string): void {
    this.#warnings.push(text);
  }
  takeWarnings(): string[] {
    return this.#warnings.splice(0);
  }
  event(): void {}
  debug(): void {}
  info(): void {}
  error(): void {}
  announce(): void {}
}

/** Returns a finding of work that either says something or is refused. `isForeign`: a plugin from outside does it. */
async function found(what: string, work: () => Promise<string>, isForeign = false): Promise<Finding> {
  try {
    return { what, ok: true, text: await work() };
  } catch (error) {
    // In the server's own parts anything else is a bug.
    if (!(error instanceof ServerError) && !isForeign) throw error;
    return { what, ok: false, text: messageOf(error) };
  }
}

// ---- parts

/** Makes all parts as a start does, opens none, and asks those that answer at once. */
async function checkParts(kernel: Kernel, request: ServeRequest, log: QuietLog): Promise<readonly Finding[]> {
  const made = await found('parts', async () => {
    kernel.create();
    return '';
  });
  if (!made.ok) return [made, { what: 'manifest', ok: true, text: 'not looked at: the parts cannot be made' }];
  const { loaded } = request;
  const plugins = loaded.map(({ module, definition }) => {
    const later = isOpenedOrStarted(definition) ? '; what it opens and starts is not tried' : '';
    return { what: `plugin ${definition.name}`, ok: true, text: `made by ${module}${later}` };
  });
  return [...plugins, ...(await checkManifest(kernel, request, log))];
}

async function checkManifest(
  kernel: Kernel,
  { config, disabled, loaded }: ServeRequest,
  log: QuietLog,
): Promise<readonly Finding[]> {
  if (disabled.has('manifest')) return [{ what: 'manifest', ok: true, text: 'none: nothing is installed' }];
  const own = loaded.find(({ replaces }) => replaces === 'manifest');
  if (own !== undefined && !answersAtOnce(own))
    return [{ what: 'manifest', ok: true, text: `read by ${own.module} when that has started, and not looked at` }];
  let actors: readonly ManifestActor[] = [];
  const read = async (): Promise<string> => {
    actors = await kernel.get(Manifest).read();
    return `${actors.length} actor(s) in ${own?.module ?? config.manifest.file}`;
  };
  const findings = [await found('manifest', read, own !== undefined)];
  const foreign = loaded.filter(({ replaces }) => replaces === 'execution' || replaces === 'codec');
  const late = foreign.find((plugin) => !answersAtOnce(plugin));
  if (late !== undefined) {
    const text = `checked by ${late.module} when that has started, and not looked at`;
    return [...findings, ...actors.map(({ name }) => ({ what: `actor ${name}`, ok: true, text }))];
  }
  const actorsOf = async (): Promise<string> => {
    for await (const finding of checkActors(kernel, actors, log)) findings.push(finding);
    return '';
  };
  const all = await found('actors', actorsOf, foreign.length > 0 || own !== undefined);
  return all.ok ? findings : [...findings, all];
}

/** Tells whether a plugin's object can be asked when nothing is opened or started. */
function answersAtOnce({ definition }: LoadedPlugin): boolean {
  const { provides, requires = {} } = definition;
  const needed = Object.values(requires).filter(({ name }) => !AMBIENT.has(name) && name !== provides.name);
  return !isOpenedOrStarted(definition) && needed.length === 0;
}

function isOpenedOrStarted(definition: LoadedPlugin['definition']): boolean {
  return definition.open !== undefined || definition.start !== undefined;
}

/** Warnings of the compiler stand in the finding. */
async function* checkActors(kernel: Kernel, actors: readonly ManifestActor[], log: QuietLog): AsyncGenerator<Finding> {
  for await (const actor of kernel.get(ManifestCheck).check(actors)) {
    const [ok, text] =
      'problem' in actor
        ? [false, actor.problem]
        : [true, `${actor.bytes} bytes, ${actor.module.pointerWidth}-bit, sha256 ${actor.module.hash.slice(0, 12)}`];
    yield { what: `actor ${actor.name}`, ok, text: [text, ...log.takeWarnings()].join('\n') };
  }
}

// ---- files

/** Reads the file of `--tokens`. */
async function checkTokens({ config, disabled }: ServeRequest): Promise<readonly Finding[]> {
  const { tokensFile } = config.auth;
  if (tokensFile === undefined || disabled.has('auth')) return [];
  const finding = await found('tokens', async () => {
    const { lines, warnings } = readTokenFile(tokensFile);
    return [`${lines.length} token(s) in ${tokensFile}`, ...warnings].join('; ');
  });
  return [finding];
}

/** Checks scopes and the file of keys; an issuer is not asked. */
async function checkJwts({ config, disabled }: ServeRequest): Promise<readonly Finding[]> {
  const { jwt } = config.auth;
  if (jwt === undefined || disabled.has('auth')) return [];
  const finding = await found('jwt', async () => {
    createBearerAuth({ token: undefined, jwt });
    return `${jwt.may.length} scope(s) for users of ${jwt.issuers.join(' ')}`;
  });
  return [finding];
}

/** Reads the files that parts of the server read or write, and changes none. */
async function checkFiles({ config, restore }: ServeRequest): Promise<readonly Finding[]> {
  const { recordFile, replayFile } = config.outcalls;
  const { accessLog, audit } = config.http;
  const { project } = config['mops-closure'];
  const findings: Finding[] = [];
  const look = async (
    what: string,
    file: string | undefined,
    work: (file: string) => Promise<string>,
  ): Promise<void> => {
    if (file !== undefined) findings.push(await found(what, () => work(file)));
  };
  await look(
    'outcalls',
    recordFile,
    async (file) => `recorded behind ${await checkRecording(file)} answer(s) in ${file}`,
  );
  await look('outcalls', replayFile, async (file) => {
    const { answers, warning } = await readRecording(file);
    return `answered by ${answers.size} request(s) in ${file}${warning === undefined ? '' : `; ${warning}`}`;
  });
  await look('access log', accessLog, async (file) => AccessLog.check(file).then(() => file));
  await look('audit', audit?.file, async (file) => AuditFile.check(file).then(() => file));
  await look('project', project, async (folder) => ProjectClosures.check(folder).then(() => folder));
  if (restore !== undefined) findings.push(await checkBackup(restore));
  return findings;
}

/** Reads the backup whole: a download that was cut off, or a damaged disk, is found before the day it is needed. */
function checkBackup({ file, directory }: NonNullable<ServeRequest['restore']>): Promise<Finding> {
  return found('backup', async () => {
    const { entries, bytes } = await verifyBackup(file, directory);
    return `${entries} entries (${bytes} bytes) in ${file}`;
  });
}

async function checkState({ config, loaded }: ServeRequest): Promise<Finding> {
  const plugin = loaded.find(({ replaces, wraps }) => replaces === 'storage' && !wraps);
  if (plugin !== undefined) return { what: 'state', ok: true, text: `kept by ${plugin.module}, and not looked at` };
  const { directory, tables } = config.storage;
  if (directory === undefined) return { what: 'state', ok: true, text: 'none: everything lives in memory' };
  return found('state', async () => {
    const { exists, entries, bytes } = await verifyState(directory, tables);
    return exists ? `${entries} entries (${bytes} bytes) in ${directory}` : `none yet in ${directory}`;
  });
}
