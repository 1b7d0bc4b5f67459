/** The reverse proxies of config/proxies, run as they are shipped but for ports, names, certificates and addresses. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from './free-port.ts';
import { temporaryDirectory } from './temporary-directory.ts';

const SHIPPED = fileURLToPath(new URL('../../config/proxies', import.meta.url));
const TLS = fileURLToPath(new URL('../fixtures/tls', import.meta.url));
const LISTENING_DEADLINE_MS = 30_000;

export const PROXIES = ['nginx', 'haproxy', 'caddy'] as const;
export type ProxyKind = (typeof PROXIES)[number];

/** A running proxy; the test's certificate is for `localhost` and 127.0.0.1. */
export interface Proxy {
  readonly kind: ProxyKind;
  readonly port: number;
  /** Port of plain HTTP; undefined where the test's proxy has none. */
  readonly plainPort: number | undefined;
  /** Returns what it printed so far. */
  readonly printed: () => string;
}

interface Prepared {
  readonly command: readonly [string, ...string[]];
  readonly env?: Readonly<Record<string, string>>;
}

interface Ports {
  readonly tls: number;
  readonly plain: number;
  readonly servers: readonly [number, number];
}

interface TestOwner {
  after(end: () => Promise<void>): void;
}

type Change = (text: string) => string;

/**
 * Starts a proxy in front of two servers of this machine, and ends it with the test. `change` is for tests that plant a
 * mistake in the configuration.
 */
export async function startProxy(
  t: TestOwner,
  kind: ProxyKind,
  servers: readonly [number, number],
  change: Change = (text) => text,
): Promise<Proxy> {
  const ports: Ports = { tls: await freePort(), plain: await freePort(), servers };
  const directory = await temporaryDirectory();
  const { command, env = {} } = await PREPARATIONS[kind](directory, ports, change);
  const [program, ...args] = command;
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } });
  let printed = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (printed += text));
  const failed = once(child, 'error').then(([error]) => {
    printed += String(error);
  });
  const closed = Promise.race([once(child, 'close'), failed]);
  t.after(async () => {
    // Each of them ends at once by this signal, and takes its workers with it.
    child.kill('SIGTERM');
    await closed;
  });
  for (const deadline = Date.now() + LISTENING_DEADLINE_MS; !(await isTaken(ports.tls)); await sleep(20))
    if (child.exitCode !== null || child.pid === undefined || Date.now() > deadline)
      throw new Error(`${kind} does not listen:\n${printed}`);
  return { kind, port: ports.tls, plainPort: kind === 'caddy' ? undefined : ports.plain, printed: () => printed };
}

const PREPARATIONS: Readonly<
  Record<ProxyKind, (directory: string, ports: Ports, change: Change) => Promise<Prepared>>
> = {
  async nginx(directory, { tls, plain, servers }, change) {
    const site = await shipped('nginx.conf', [
      ['listen 443 ssl http2;', `listen 127.0.0.1:${tls} ssl http2;`],
      ['  listen [::]:443 ssl http2;\n', ''],
      ['listen 80;', `listen 127.0.0.1:${plain};`],
      ['  listen [::]:80;\n', ''],
      ['/etc/nginx/svc.pem', `${TLS}/good.pem`],
      ['/etc/nginx/svc.key', `${TLS}/good.key`],
      ['127.0.0.1:7000', `127.0.0.1:${servers[0]}`],
      ['127.0.0.1:7001', `127.0.0.1:${servers[1]}`],
      ['127[.]0[.]0[.]1:7000$', `127[.]0[.]0[.]1:${servers[0]}$`],
      ['127[.]0[.]0[.]1:7001$', `127[.]0[.]0[.]1:${servers[1]}$`],
    ]);
    await writeFile(join(directory, 'svc.conf'), change(site));
    const bodies = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
    const temporary = bodies.map((name) => `${name}_temp_path ${directory}/${name};`).join(' ');
    // The test's folder is closed to nginx's own user.
    const main = `user root; daemon off; worker_processes 2; pid ${directory}/pid; error_log stderr;
      events { worker_connections 1024; }
      http { access_log off; ${temporary} include ${directory}/svc.conf; }\n`;
    await writeFile(join(directory, 'nginx.conf'), main);
    return { command: ['nginx', '-e', 'stderr', '-c', join(directory, 'nginx.conf')] };
  },
  async haproxy(directory, { tls, plain, servers }, change) {
    const certificate = await Promise.all(['good.pem', 'good.key'].map((name) => readFile(join(TLS, name), 'utf8')));
    await writeFile(join(directory, 'svc.pem'), certificate.join(''), { mode: 0o600 });
    const text = await shipped('haproxy.cfg', [
      ['bind :443 ', `bind 127.0.0.1:${tls} `],
      ['bind :80\n', `bind 127.0.0.1:${plain}\n`],
      ['/etc/haproxy/svc.pem', join(directory, 'svc.pem')],
      // Names of such sockets are the machine's.
      ['abns@svc-inside', `abns@svc-inside-${tls}`],
      ['127.0.0.1:7000', `127.0.0.1:${servers[0]}`],
      ['127.0.0.1:7001', `127.0.0.1:${servers[1]}`],
    ]);
    await writeFile(join(directory, 'haproxy.cfg'), change(text));
    return { command: ['haproxy', '-db', '-f', join(directory, 'haproxy.cfg')] };
  },
  async caddy(directory, { tls, servers }, change) {
    const text = await shipped('Caddyfile', [
      ['\nsvc.example {', `\nhttps://localhost:${tls} {\n\ttls ${TLS}/good.pem ${TLS}/good.key`],
      ['127.0.0.1:7000', `127.0.0.1:${servers[0]}`],
      ['127.0.0.1:7001', `127.0.0.1:${servers[1]}`],
    ]);
    const options = '{\n\tadmin off\n\tauto_https disable_redirects\n\tdefault_bind 127.0.0.1\n}\n';
    await writeFile(join(directory, 'Caddyfile'), options + change(text));
    for (const name of ['data', 'config']) await mkdir(join(directory, name));
    const env = { XDG_DATA_HOME: join(directory, 'data'), XDG_CONFIG_HOME: join(directory, 'config') };
    return { command: ['caddy', 'run', '--config', join(directory, 'Caddyfile'), '--adapter', 'caddyfile'], env };
  },
};

/** Returns a shipped file with replacements, each of which has to find its text. */
async function shipped(file: string, replacements: readonly (readonly [string, string])[]): Promise<string> {
  let text = await readFile(join(SHIPPED, file), 'utf8');
  for (const [from, to] of replacements) {
    if (!text.includes(from)) throw new Error(`config/proxies/${file} has no ${JSON.stringify(from)}`);
    text = text.replaceAll(from, to);
  }
  return text;
}

async function isTaken(port: number): Promise<boolean> {
  const socket = connect({ host: '127.0.0.1', port });
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
