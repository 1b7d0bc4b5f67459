/**
 * Follows docs/operations.md as its reader would: each section's commands, word by word and in order, on a machine of
 * its own that has the tarball and nothing else. No systemd runs there; `systemctl` is a stand-in.
 *
 * The longest of all files, mostly waiting: files begin in the order of their names, and the others run beside this one
 * only if it is the first.
 */
import assert from 'node:assert/strict';
import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { assertShows, commandsOf, listingsOf } from '../support/doc-listings.ts';
import { type Machine, startMachine } from '../support/machine.ts';
import { packServer } from '../support/packages.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';

const PAGE = await listingsOf('operations');
const endings: (() => Promise<void>)[] = [];
const followed: string[] = [];

/** Changes half a mebibyte with each message. */
const FILLER = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (memory 65)
  (func (export "canister_update fill")
    (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
    (memory.fill (i32.const 65536) (i32.load (i32.const 0)) (i32.const 4194304))
    (call $reply)))`);
/** In front of an address: asks until the answer is good. */
const PATIENT = `timeout 300 sh -c 'until curl -fsS "$0" 2>/dev/null; do sleep 0.05; done'`;

let machine: Machine;
before(async () => {
  // Under an owner's name, as nobody can publish it without one.
  const tarball = await packServer(await temporaryDirectory(), '@scope/svc');
  machine = await startMachine({ after: (end) => void endings.push(end) });
  await cp(tarball, join(machine.home, 'svc-0.1.0.tgz'));
});
after(async () => {
  for (const end of endings) await end();
});

/** Runs all commands of a section, with the outputs that it shows; resolves with what its scripts printed. */
async function follow(title: string, options: { readonly hasOutside?: boolean } = {}): Promise<string> {
  const listings = PAGE.get(title);
  assert.ok(listings !== undefined && listings.length > 0, `the page has no commands under ${title}`);
  followed.push(title);
  let printed = '';
  for (const listing of listings.filter(({ language }) => language === 'sh')) {
    if (!listing.text.startsWith('$ ')) printed += await machine.succeed(listing.text, options);
    for (const { line, expected } of commandsOf(listing)) assertShows(await machine.succeed(line), expected);
  }
  return printed;
}

/** Waits until the server is ready and calls the counter; resolves with the answer. */
async function call(method: string, kind = 'call-json', on = machine): Promise<string> {
  await on.succeed(`${PATIENT} http://127.0.0.1:7000/health/ready`);
  return on.succeed(`curl -sS -K /etc/svc/curlrc -d '[]' http://127.0.0.1:7000/${kind}/counter/${method}`);
}

/** Counts once more and returns what the counter must be from then on. */
async function counted(): Promise<string> {
  return call('inc');
}

/** Waits until Prometheus has read the server anew, which takes up to 15 s; resolves with `1` if it could. */
async function isUp(): Promise<string> {
  const query = `query=up{job="svc"} and timestamp(up{job="svc"}) > ${Date.now() / 1000}`;
  const asked = `curl -sSG --data-urlencode '${query}' http://127.0.0.1:9090/api/v1/query`;
  const value = `sed -nE 's/.*,"([01])"\\].*/\\1/p'`;
  const said = await machine.succeed(
    `for n in $(seq 600); do ${asked} | ${value} | grep . && exit; sleep 0.2; done; exit 1`,
  );
  return said.trim();
}

async function journal(): Promise<string> {
  return machine.succeed('journalctl -u svc');
}

test('Install', { timeout: 600_000 }, async () => {
  await follow('Install', { hasOutside: true });
});

test('The unit', { timeout: 120_000 }, async () => {
  await follow('The unit');
  const owner = (await machine.succeed('stat -c %u /var/lib/private/svc')).trim();
  assert.ok(Number(owner) > 61_000, 'the state belongs to a user of the service');
  // The last commands have started it again.
  await machine.succeed(`${PATIENT} http://127.0.0.1:7000/health/ready`);
  assert.equal((await machine.run('curl -fsS -d "[]" http://127.0.0.1:7000/call-json/counter/inc')).code, 22);
});

test('Without systemd', { timeout: 120_000 }, async () => {
  await machine.succeed('systemctl stop svc');
  const [listing] = PAGE.get('Without systemd') ?? [];
  followed.push('Without systemd');
  const asked = "curl -sS -K /etc/svc/curlrc -d '[]' http://127.0.0.1:7000/call-json/counter/inc";
  const ready = `${PATIENT} http://127.0.0.1:7000/health/ready`;
  const owner = 'stat -c " %U %a" /srv/svc/state';
  const said = await machine.succeed(
    `${listing?.text ?? ''}\n${ready}; ${asked}; ${owner}; kill $! && wait $!; echo "code $?"`,
  );
  assert.match(said, /ready\[1\] svc 700\nshutdown: 1 actor\(s\) checkpointed\ncode 0\n$/);
  await machine.succeed('systemctl start svc');
});

test('The proxy', { timeout: 120_000 }, async () => {
  await machine.succeed('install -d /var/lib/nginx /var/log/nginx');
  await follow('The proxy');
  const spoofed =
    "curl -sS --cacert /etc/nginx/svc.pem --resolve svc.test:443:127.0.0.1 --interface 127.0.0.2 -H 'X-Forwarded-For: 9.9.9.9'";
  const { stdout } = await machine.run(`${spoofed} --http2 -w '%{http_version} %{http_code}' https://svc.test/seen`);
  assert.match(stdout, /2 401$/);
  await machine.succeed(
    'for n in $(seq 50); do grep -q /seen /var/log/svc/access.log && exit; sleep 0.1; done; exit 1',
  );
  const line = await machine.succeed('grep /seen /var/log/svc/access.log');
  assert.match(line, /"client":"127\.0\.0\.2"/);
});

test('Prometheus', { timeout: 120_000 }, async () => {
  await machine.succeed('install -d -o prometheus /var/lib/prometheus');
  await follow('Prometheus');
  assert.equal(await isUp(), '1');
  assert.match(await machine.succeed("curl -sS 'http://127.0.0.1:9090/api/v1/rules'"), /"name":"SvcDown"/);
});

test('Backup', { timeout: 120_000 }, async () => {
  await follow('Backup');
  assert.match(await machine.succeed('stat -c "%a %u" /var/lib/svc-backup/svc-*.backup'), /^600 6\d{4}\n$/);
});

test('Restore drill', { timeout: 120_000 }, async () => {
  const kept = await call('get', 'query-json');
  assert.ok((await follow('Restore drill')).includes(`ready${kept}shutdown: 1 actor(s)`));
});

test('Restoring', { timeout: 120_000 }, async () => {
  const kept = await call('get', 'query-json');
  await counted();
  await follow('Restoring');
  assert.equal(await call('get', 'query-json'), kept, 'the state is that of the backup');
  assert.ok(Number(await machine.succeed('stat -c %u /var/lib/private/svc/tables')) > 61_000);
});

test('Restoring what is damaged starts no service with an empty state', { timeout: 120_000 }, async () => {
  const kept = await call('get', 'query-json');
  const [listing] = PAGE.get('Restoring') ?? [];
  assert.ok(listing !== undefined);
  await machine.succeed('echo damaged > /var/lib/svc-backup/svc-9999.backup');
  assert.notEqual((await machine.run(listing.text)).code, 0);
  assert.notEqual((await machine.run('curl -fsS http://127.0.0.1:7000/health/live')).code, 0);
  await machine.succeed('rm /var/lib/svc-backup/svc-9999.backup');
  await machine.succeed(listing.text);
  assert.equal(await call('get', 'query-json'), kept);
});

test('Archive', { timeout: 120_000 }, async () => {
  const script = PAGE.get('Archive')?.map(({ text }) => text) ?? [];
  assert.equal(script.length, 2);
  followed.push('Archive');
  await machine.succeed(script[0] ?? '');
  const kept = await counted();
  // The archive has it within ten seconds.
  await machine.succeed('sleep 11');
  assert.ok((await machine.succeed(script[1] ?? '')).includes(`ready${kept}shutdown: 1 actor(s)`));
});

test('Another version of an actor', { timeout: 120_000 }, async () => {
  const kept = Number((await counted()).slice(1, -1));
  assert.match(await follow('Another version of an actor'), /^upgraded/);
  assert.equal(await counted(), `[${kept + 2}]`);
});

test('Another token', { timeout: 120_000 }, async () => {
  const kept = await counted();
  await machine.succeed('cp /etc/svc/curlrc old-curlrc');
  await follow('Another token');
  assert.equal(await call('get', 'query-json'), kept);
  assert.equal((await machine.run('curl -fsS -K old-curlrc http://127.0.0.1:7000/actors')).code, 22);
  assert.equal(await isUp(), '1');
});

test('Log rotation', { timeout: 120_000 }, async () => {
  await follow('Log rotation');
  const force = 'logrotate --force --state /srv/reader/rotated /etc/logrotate.d/svc';
  await machine.succeed(force);
  await call('get', 'query-json');
  await machine.succeed('for n in $(seq 50); do [ -s /var/log/svc/access.log ] && exit; sleep 0.1; done; exit 1');
  assert.match(await machine.succeed('cat /var/log/svc/access.log.1'), /"target":"\/seen"/);
  assert.doesNotMatch(await machine.succeed('cat /var/log/svc/access.log'), /"target":"\/seen"/);
  // A log that the server holds open is cut, and the next lines begin at its begin.
  const own = '/opt/svc/node_modules/.bin/svc --no-manifest --listen 127.0.0.1:7001 2>> /var/log/svc.log >/dev/null &';
  const again =
    'curl -sS http://127.0.0.1:7001/actors >/dev/null; sleep 1; head -c 4 /var/log/svc.log; ls /var/log/svc.log.1';
  const rotated = await machine.succeed(
    `${own} ${PATIENT} http://127.0.0.1:7001/health/ready; ${force}; ${again}; kill $!`,
  );
  assert.match(rotated, /^ready20\d\d\/var\/log\/svc\.log\.1\n$/);
});

test('Sizing', { timeout: 180_000 }, async () => {
  const [listing] = PAGE.get('Sizing') ?? [];
  followed.push('Sizing');
  const measure = () => machine.run(listing?.text ?? '');
  // The command gives up where others keep the machine busy.
  let measured = await measure();
  for (let again = 0; again < 3 && measured.stderr.includes('too busy'); again++) measured = await measure();
  const hadTime = !measured.stdout.includes('sleeping actor: not measured: no time was left on this machine');
  assert.equal(measured.code, hadTime ? 0 : 1, measured.stdout + measured.stderr);
  assert.match(measured.stdout, /^live actor: .*^durable update: .*^room: /ms);
});

test('When the disk fills', { timeout: 300_000 }, async () => {
  const state = '/var/lib/private/svc';
  await writeFile(join(machine.home, 'filler.wasm'), FILLER);
  const post = 'curl -fsS -K /etc/svc/curlrc http://127.0.0.1:7000';
  await machine.succeed(`${post}/install/filler --data-binary @filler.wasm`);
  await machine.succeed(`systemctl stop svc; mv ${state} ${state}.kept; mkdir -m 700 ${state}
    mount -t tmpfs -o mode=700,size=400m tmpfs ${state}
    cp -a ${state}.kept/. ${state}; chown --reference=${state}.kept ${state}; systemctl start svc`);
  await counted();
  // The step log uses up what it has taken ahead before the disk says no.
  await machine.succeed(`head -c 400M /dev/zero > ${state}/filler || true`);
  const round = `${post}/call-json/counter/inc -d '[]' && ${post}/call/filler/fill -d ''`;
  const { stdout } = await machine.run(`for n in $(seq 2000); do ${round} || exit 0; done`);
  const acknowledged = Number(/\[(\d+)\]$/.exec(stdout)?.[1]);
  assert.ok((stdout.match(/\[\d+\]/g) ?? []).length > 3, stdout);
  const full = /the server ends: the state in \S+ cannot be written: .*No space left on device/;
  assert.match(await journal(), full);
  // The unit starts again and again, for longer than systemd's own limit would let it.
  await machine.succeed('sleep 20');
  await machine.succeed(`rm ${state}/filler`);
  assert.match(await call('get', 'query-json'), new RegExp(`^\\[(${acknowledged}|${acknowledged + 1})\\]$`));
  await follow('When the disk fills');
  assert.match(await call('get', 'query-json'), new RegExp(`^\\[(${acknowledged}|${acknowledged + 1})\\]$`));
  await machine.succeed(`systemctl stop svc; rm -rf ${state}.kept; cp -a ${state} ${state}.kept; umount ${state}
    rmdir ${state}; mv ${state}.kept ${state}; systemctl start svc`);
});

test('Upgrading svc', { timeout: 300_000 }, async () => {
  const kept = await counted();
  // The registry is outside of the machine, and the server within it.
  const [listing] = PAGE.get('Upgrading svc') ?? [];
  const lines = listing?.text.split('\n') ?? [];
  const installs = lines.findIndex((line) => line.startsWith('npm install'));
  assert.ok(installs > 0);
  followed.push('Upgrading svc');
  const newest = lines[installs - 1] ?? '';
  await machine.succeed(lines.slice(0, installs).join('\n'));
  await machine.succeed(lines[installs] ?? '', { hasOutside: true });
  const said = await machine.succeed([newest, ...lines.slice(installs + 1)].join('\n'));
  assert.match(said, /^ok actor counter: .*\nok backup: \d+ entries .*\nok state: none yet/m);
  assert.equal(await call('get', 'query-json'), kept);
  // A downgrade is refused by name.
  await machine.succeed(
    'systemctl stop svc; cp /var/lib/svc/format format; echo "svc state, format 99" > /var/lib/svc/format',
  );
  const { code, stdout } = await machine.run(
    '/opt/svc/node_modules/.bin/svc --check --no-manifest --state /var/lib/svc',
  );
  assert.equal(code, 1);
  assert.match(stdout, /^FAILED state: .*format 99.*newer svc/m);
  await machine.succeed('cat format > /var/lib/svc/format; systemctl start svc');
  assert.equal(await call('get', 'query-json'), kept);
});

test('Moving to PostgreSQL and back', { timeout: 300_000 }, async () => {
  const kept = await counted();
  const postgres = 'runuser -u postgres -- "$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)"';
  await machine.succeed(`install -d -o postgres /var/lib/pg
    ${postgres}/initdb -D /var/lib/pg -A trust --no-sync >/dev/null
    ${postgres}/pg_ctl -D /var/lib/pg -w -o "-k /var/lib/pg -c fsync=off" -l /var/lib/pg/log start >/dev/null
    runuser -u postgres -- createdb -h 127.0.0.1 svc`);
  await machine.succeed(`(umask 077; echo SVC_POSTGRES_URL=postgres://postgres@127.0.0.1/svc >> /etc/svc/flags)`);
  await follow('Moving to PostgreSQL and back');
  assert.equal(await call('get', 'query-json'), kept);
  const more = await counted();
  assert.notEqual(more, kept);
  // Back, as the page's last sentence says.
  await machine.succeed(
    'systemctl start svc-backup; rm /etc/systemd/system/svc.service.d/storage.conf; systemctl daemon-reload',
  );
  await machine.succeed(PAGE.get('Restoring')?.[0]?.text ?? '');
  assert.equal(await call('get', 'query-json'), more);
});

test('Moving to another machine', { timeout: 300_000 }, async () => {
  const kept = await counted();
  const [here, there] = PAGE.get('Moving to another machine')?.map(({ text }) => text) ?? [];
  assert.ok(here !== undefined && there !== undefined);
  followed.push('Moving to another machine');
  await machine.succeed(here);
  const other = await startMachine({ after: (end) => void endings.push(end) });
  for (const name of ['svc-state.tar.gz', 'svc-etc.tar.gz']) await cp(join(machine.home, name), join(other.home, name));
  // The copies are those of "Install" and "The unit", without installing a second time.
  await cp(join(machine.home, '../../opt'), join(other.home, '../../opt'), { recursive: true, verbatimSymlinks: true });
  await other.succeed('cp /opt/svc/node_modules/svc/config/systemd/svc*.service /etc/systemd/system/');
  // Another machine has other users.
  await other.succeed('install -d /run/stand-in; echo 61234 > /run/stand-in/svc.service.uid');
  await other.succeed(there);
  assert.equal(await call('get', 'query-json', other), kept);
  assert.equal(await other.succeed('stat -c %u /var/lib/private/svc/tables'), '61234\n');
});

test('all sections that have commands were followed', () => {
  const withCommands = [...PAGE].filter(([, listings]) => listings.some(({ language }) => language === 'sh'));
  assert.deepEqual(followed.toSorted(), withCommands.map(([title]) => title).toSorted());
});
