/**
 * The server as a network of `icp`: takes the flags of its launcher, serves, and writes the file that `icp network
 * start` waits for. The interface is version 1.1.0 of icp-cli's network launcher.
 */
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { refuse } from './terminal.ts';

const INTERFACE_MAJOR = '1.';
/** The id of the first canister of a host, which the path of a creation may name. */
const FIRST_ID = 'bkyz2-fmaaa-aaaaa-qaaaq-cai';
const ASK_AGAIN_MS = 50;
const ROOT_KEY_BYTES = 133;
/** Begins the value of the root key in the CBOR of the status: its name, and a byte string of 133 bytes. */
const ROOT_KEY_MARK = Buffer.concat([Buffer.from('root_key'), Buffer.of(0x58, ROOT_KEY_BYTES)]);

const OPTIONS = {
  'interface-version': { type: 'string' },
  'state-dir': { type: 'string' },
  'status-dir': { type: 'string' },
  bind: { type: 'string', default: '127.0.0.1' },
  'gateway-port': { type: 'string', default: '0' },
  domain: { type: 'string', multiple: true },
  verbose: { type: 'boolean' },
  'artificial-delay-ms': { type: 'string' },
  ii: { type: 'boolean' },
  nns: { type: 'boolean' },
  subnet: { type: 'string', multiple: true },
  'bitcoind-addr': { type: 'string', multiple: true },
  'dogecoind-addr': { type: 'string', multiple: true },
} as const;

/** Flags that the launcher of the Internet Computer acts upon, and this host has nothing for. */
const IGNORED = ['artificial-delay-ms', 'ii', 'nns', 'subnet', 'bitcoind-addr', 'dogecoind-addr'] as const;

type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS }>>['values'];

/** Serves with the flags of the launcher until a signal ends it; resolves with the exit code. */
export async function launchNetwork(
  argv: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
  serve: (argv: readonly string[]) => Promise<number>,
): Promise<number> {
  const read = readFlags(argv);
  if (typeof read === 'string') return refuse([read]);
  for (const name of IGNORED)
    if (read[name] !== undefined)
      process.stderr.write(`svc-network-launcher: --${name} is ignored: svc has no such thing\n`);
  const { bind, 'status-dir': statusDirectory, 'state-dir': stateDirectory } = read;
  const port = read['gateway-port'] === '0' ? await freePort(bind) : Number(read['gateway-port']);
  // icp empties its own directory at each start.
  const state = environment['SVC_STATE'] ?? (stateDirectory === undefined ? undefined : join(stateDirectory, 'svc'));
  const agents = '--agents guarded --agent-creators anonymous --agent-certificates';
  const flags = `--listen ${bind}:${port} --no-manifest --site-hosts ${agents}`;
  const kept = state === undefined ? [] : ['--state', state];
  const serving = serve([...flags.split(' '), ...kept, ...(read.verbose === true ? ['--verbose'] : [])]);
  if (statusDirectory === undefined) return await serving;
  const ended = new AbortController();
  const telling = tellStatus(statusDirectory, { bind, port }, ended.signal);
  try {
    return await Promise.race([serving, telling.then(() => serving)]);
  } finally {
    ended.abort();
    await telling;
  }
}

/** Returns the flags, or what is wrong with them. */
function readFlags(argv: readonly string[]): Values | string {
  let values: Values;
  try {
    ({ values } = parseArgs({ args: [...argv], options: OPTIONS }));
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  const version = values['interface-version'];
  if (version !== undefined && !version.startsWith(INTERFACE_MAJOR))
    return `--interface-version ${version}: this launcher speaks version 1`;
  const port = values['gateway-port'];
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) return `--gateway-port ${port} is no port: give 0 to 65535`;
  return values;
}

async function freePort(host: string): Promise<number> {
  const server = createServer();
  const listening = Promise.withResolvers<void>();
  server.once('error', listening.reject).listen(0, host, listening.resolve);
  await listening.promise;
  const address = server.address();
  const closed = Promise.withResolvers<void>();
  server.close(() => closed.resolve());
  await closed.promise;
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** Writes `status.json` once the server is ready; ends without it when the signal is aborted. */
async function tellStatus(
  directory: string,
  { bind, port }: { readonly bind: string; readonly port: number },
  signal: AbortSignal,
): Promise<void> {
  const rootKey = await rootKeyOf(`http://${bind}:${port}`, signal);
  if (rootKey === undefined) return;
  const status = {
    v: '1',
    instance_id: null,
    config_port: null,
    gateway_port: port,
    root_key: rootKey.toString('hex'),
    default_effective_canister_id: FIRST_ID,
    supported_features: [],
  };
  await mkdir(directory, { recursive: true });
  const file = join(directory, 'status.json');
  // icp reads the file as soon as it is there.
  await writeFile(`${file}.new`, `${JSON.stringify(status)}\n`);
  await rename(`${file}.new`, file);
}

/** Asks the server until it is ready; resolves with undefined when the signal is aborted. */
async function rootKeyOf(origin: string, signal: AbortSignal): Promise<Buffer | undefined> {
  while (!signal.aborted) {
    const cbor = await statusOf(origin, signal);
    const at = cbor?.indexOf(ROOT_KEY_MARK) ?? -1;
    if (cbor !== undefined && at >= 0)
      return cbor.subarray(at + ROOT_KEY_MARK.length, at + ROOT_KEY_MARK.length + ROOT_KEY_BYTES);
    await delay(ASK_AGAIN_MS, undefined, { signal }).catch(() => undefined);
  }
  return undefined;
}

async function statusOf(origin: string, signal: AbortSignal): Promise<Buffer | undefined> {
  try {
    const ready = await fetch(`${origin}/health/ready`, { signal });
    if (!ready.ok) return undefined;
    const response = await fetch(`${origin}/api/v2/status`, { signal });
    return response.ok ? Buffer.from(await response.arrayBuffer()) : undefined;
  } catch {
    // The server does not listen yet, or has stopped.
    return undefined;
  }
}
