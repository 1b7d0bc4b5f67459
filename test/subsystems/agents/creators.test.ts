/** Who may create canisters at `/api`, and who controls those of the manifest: by clients as they come from npm. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { loadConfig } from '../../../config/load.ts';
import type { InProcessServer } from '../../support/in-process-server.ts';
import { startInProcess } from '../../support/in-process-server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { compiledActor, FIRST_TEXT } from './actor.ts';
import { type Core, CORES } from './cores.ts';
import { managementOf } from './management-actor.ts';

const EMPTY_ARGUMENT = Buffer.from('4449444c0000', 'hex');
const ANONYMOUS = '2vxsx-fae';
const REFUSED = /Reject code: 5[^]*IC0512/;
const [core] = Object.values(CORES) as [Core];
const { Principal } = core.principal;
const newIdentity = () => core.identity.Ed25519KeyIdentity.generate();
const about = (id: string) => ({ canister_id: Principal.fromText(id) });

async function managementBy({ origin }: InProcessServer, more: object = {}) {
  return managementOf(core, await core.agent.HttpAgent.create({ host: origin, shouldFetchRootKey: true, ...more }));
}

async function controllersOf({ calls }: Awaited<ReturnType<typeof managementBy>>, id: string) {
  return (await calls.canister_status(about(id))).settings.controllers.map((each) => each.toText()).sort();
}

suite('controllers of the manifest', () => {
  test('manage an actor at /api, and are those of the file as it is at a start', async (t) => {
    const directory = await temporaryDirectory();
    const manifestFile = join(directory, 'actors.json');
    await writeFile(join(directory, 'it.wasm'), await compiledActor());
    const [one, other] = [newIdentity(), newIdentity()];
    const textOf = (identity: typeof one): string => identity.getPrincipal().toText();
    const write = (more: object): Promise<void> =>
      writeFile(manifestFile, JSON.stringify({ actors: { it: { wasm: 'it.wasm', ...more } } }));
    const start = (): Promise<InProcessServer> =>
      startInProcess(t, { manifestFile, args: ['--state', join(directory, 'state')] });

    await write({ controllers: [textOf(one), ANONYMOUS] });
    const first = await start();
    const ones = await managementBy(first, { identity: one });
    assert.deepEqual(await controllersOf(ones, FIRST_TEXT), [ANONYMOUS, textOf(one)].sort());
    await ones.calls.stop_canister(about(FIRST_TEXT));
    await ones.calls.start_canister(about(FIRST_TEXT));
    await assert.rejects(
      (await managementBy(first, { identity: other })).calls.stop_canister(about(FIRST_TEXT)),
      REFUSED,
    );
    assert.equal((await first.post('/call-json/it/inc')).body, '[1]');
    await first.stop();

    await write({ controllers: [textOf(other)] });
    const second = await start();
    const others = await managementBy(second, { identity: other });
    assert.deepEqual(await controllersOf(others, FIRST_TEXT), [ANONYMOUS, textOf(other)].sort());
    await assert.rejects(
      (await managementBy(second, { identity: one })).calls.stop_canister(about(FIRST_TEXT)),
      REFUSED,
    );
    // Given on by a controller; the file says nothing of them any more.
    const both = [one, other].map((each) => Principal.fromText(textOf(each)));
    await others.calls.update_settings({ ...about(FIRST_TEXT), settings: { controllers: [both] } });
    await second.stop();

    await write({});
    const third = await start();
    assert.deepEqual(
      await controllersOf(await managementBy(third, { identity: one }), FIRST_TEXT),
      both.map((each) => each.toText()).sort(),
    );
  });
});

suite('--agent-creators', () => {
  test('anonymous: creates canisters and manages those alone', async (t) => {
    const state = await temporaryDirectory();
    const args = ['--state', state];
    const server = await startInProcess(t, { args: [...args, '--agent-creators', 'anonymous'] });
    const wasm = await compiledActor();
    await server.post('/install/it', wasm);
    const nobodys = await managementBy(server);
    const friend = newIdentity();
    const friends = await managementBy(server, { identity: friend });
    const made = await nobodys.calls.provisional_create_canister_with_cycles({ amount: [], settings: [] });
    const id = made.canister_id.toText();
    assert.deepEqual(await controllersOf(nobodys, id), [ANONYMOUS]);
    await nobodys.calls.install_code({ ...about(id), mode: { install: null }, wasm_module: wasm, arg: EMPTY_ARGUMENT });
    assert.equal((await server.post(`/call-json/${id}/who`)).body, `["${ANONYMOUS}"]`);

    // The actor of somebody else, whose controller is the anonymous principal by name.
    for (const refused of [
      nobodys.calls.stop_canister(about(FIRST_TEXT)),
      nobodys.calls.canister_status(about(FIRST_TEXT)),
      nobodys.calls.uninstall_code(about(FIRST_TEXT)),
      nobodys.calls.update_settings({ ...about(FIRST_TEXT), settings: { controllers: [[]] } }),
      friends.calls.stop_canister(about(id)),
    ])
      await assert.rejects(refused, REFUSED);
    // Somebody signed who names the anonymous principal gives nothing to whoever asks here.
    const theirs = (await friends.calls.create_canister({ settings: [] })).canister_id.toText();
    const shared = [friend.getPrincipal(), Principal.anonymous()].map((each) => Principal.fromText(each.toText()));
    await friends.calls.update_settings({ ...about(theirs), settings: { controllers: [shared] } });
    await assert.rejects(nobodys.calls.stop_canister(about(theirs)), REFUSED);

    // A friend who shares the canister keeps the anonymous principal in it by its name.
    await nobodys.calls.update_settings({ ...about(id), settings: { controllers: [shared] } });
    assert.deepEqual(await controllersOf(friends, id), shared.map((each) => each.toText()).sort());
    await friends.calls.update_settings({ ...about(id), settings: { controllers: [shared] } });
    await nobodys.calls.stop_canister(about(id));
    await server.stop();

    const without = await startInProcess(t, { args });
    const strangers = await managementBy(without);
    await assert.rejects(strangers.calls.start_canister(about(id)), REFUSED);
    await assert.rejects(strangers.calls.create_canister({ settings: [] }), REFUSED);
    await (await managementBy(without, { identity: friend })).calls.start_canister(about(id));
  });

  test('with --agents open: those that are named, and whoever shows the token', async (t) => {
    const [named, other] = [newIdentity(), newIdentity()];
    const args = ['--agents', 'open', '--auth-token', 'secret', '--agent-creators', named.getPrincipal().toText()];
    const server = await startInProcess(t, { args });
    const create = async (more: object) =>
      (await (await managementBy(server, more)).calls.create_canister({ settings: [] })).canister_id.toText();
    const id = await create({ identity: named });
    const shown = (password: string) => ({ identity: other, credentials: { name: 'any', password } });
    await create(shown('secret'));
    for (const more of [{ identity: other }, shown('wrong'), {}]) await assert.rejects(create(more), REFUSED);
    // To create is not to use the server.
    const topUp = { ...about(id), amount: 1n };
    await (await managementBy(server, { identity: named })).calls.provisional_top_up_canister(topUp);
    await assert.rejects(
      (await managementBy(server, { identity: other })).calls.provisional_top_up_canister(topUp),
      REFUSED,
    );
  });

  test('anonymous is refused where others than this machine reach the server', async () => {
    const problemsOf = async (...argv: string[]): Promise<readonly string[]> => {
      const directory = await temporaryDirectory();
      const request = await loadConfig({
        argv: ['--no-manifest', ...argv],
        environment: {},
        pluginNames: ['manifest'],
        version: '0.0.0',
        build: 'test',
        directory,
        root: directory,
      });
      return request.kind === 'refused' ? request.problems : [];
    };
    const anonymous = ['--agent-creators', 'anonymous'];
    assert.deepEqual(await problemsOf(...anonymous), []);
    assert.deepEqual(await problemsOf('--listen', '0.0.0.0:0', '--insecure', '--agent-creators', 'aaaaa-aa'), []);
    assert.match((await problemsOf('--listen', '0.0.0.0:0', '--insecure', ...anonymous)).join(), /needs a loopback/);
    assert.match((await problemsOf('--trust-proxy', '127.0.0.1', ...anonymous)).join(), /--trust-proxy contradict/);
    assert.match((await problemsOf('--agent-creators', 'aaaaa-aa,me')).join(), /"me" is no principal/);
  });
});
