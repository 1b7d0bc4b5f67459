/** `svc/contracts/manifest`: the suite that every manifest has to pass. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import type { Manifest, ManifestActor } from '../../../subsystems/manifest/index.ts';
import { createManifest } from '../../../subsystems/manifest/manifest-file.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from './runner.ts';

/** Makes the server's own manifest, of a file that declares the actors `written` and `compiled`. */
export type OwnManifest = () => Promise<Manifest>;

const FILE = {
  actors: { written: { wasm: 'written.wasm', cycles: '5' }, compiled: { main: 'Compiled.mo', env: { A: '1' } } },
};
const NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/;

async function ownManifest(t: SuiteContext): Promise<Manifest> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-contract-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, 'actors.json'), JSON.stringify(FILE));
  for (const file of ['written.wasm', 'Compiled.mo']) await writeFile(join(folder, file), '');
  return createManifest({ file: join(folder, 'actors.json') });
}

/** Declares the suite. `make` returns a manifest that declares at least one actor. */
export function describeManifest(
  name: string,
  make: (context: SuiteContext, own: OwnManifest) => Manifest | Promise<Manifest>,
  runner: SuiteRunner = nodeRunner,
): void {
  suite(runner, name, (test) => {
    const read = async (t: SuiteContext): Promise<readonly ManifestActor[]> =>
      (await make(t, () => ownManifest(t))).read();

    test('each actor has a name that it may have, and that no other has', async (t) => {
      const actors = await read(t);
      assert.ok(actors.length > 0, 'it declares no actor');
      for (const actor of actors) assert.match(actor.name, NAME);
      assert.equal(new Set(actors.map((actor) => actor.name)).size, actors.length);
    });

    test('each actor is a module or a Motoko source, by an absolute path', async (t) => {
      for (const { source, candidFile } of await read(t)) {
        assert.ok(['wasm', 'main'].includes(source.kind), source.kind);
        for (const file of [source.file, candidFile ?? source.file]) assert.ok(isAbsolute(file), file);
      }
    });

    test('arguments, cycles, environment and certificate are of the types that an installation takes', async (t) => {
      for (const { args, cycles, env, hasCertificate } of await read(t)) {
        if (args?.kind === 'bytes') assert.ok(args.bytes instanceof Uint8Array);
        else if (args !== undefined) assert.ok(['json', 'candid'].includes(args.kind) && typeof args.text === 'string');
        assert.ok(cycles === undefined || (typeof cycles === 'bigint' && cycles >= 0n));
        assert.ok(env instanceof Map);
        for (const [key, value] of env) assert.deepEqual([typeof key, typeof value], ['string', 'string']);
        assert.equal(typeof hasCertificate, 'boolean');
      }
    });

    test('it is read anew each time, and says the same as long as nothing has changed', async (t) => {
      const manifest = await make(t, () => ownManifest(t));
      assert.deepEqual(await manifest.read(), await manifest.read());
    });
  });
}
