/** A lock that holds what manifests resolve to is believed, whatever they name. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { whyStale } from '../../../subsystems/compiler/mops/lock-validity.ts';
import { Manifests, rootHash } from '../../../subsystems/compiler/mops/manifests.ts';
import type { MopsLock } from '../../../subsystems/compiler/mops/mops-lock.ts';
import {
  type Dependency,
  dependencyOf,
  packageId,
  parseMopsToml,
} from '../../../subsystems/compiler/mops/mops-toml.ts';
import { resolvePackages } from '../../../subsystems/compiler/mops/resolve-packages.ts';
import { memorySources } from '../../../subsystems/compiler/source-reader.ts';
import fc, { cases } from '../../support/properties.ts';

const NAMES = ['a', 'b', 'c'] as const;
const VERSIONS = ['1.0.0', '2.0.0'] as const;
const FOLDERS = ['l', 'm'] as const;
const REFS = ['main', 'dev', 'v1.0.0', 'v2.0.0'] as const;
/** The names under which the root has its local packages, so that these may name the others first. */
const OWN = { l: './l', m: './m' };

type Declared = Readonly<Record<string, string>>;

/** Dependencies as a manifest in a folder below the root has them; the root's own are below `.`. */
const declared = (up: string, hasLocals = true): fc.Arbitrary<Declared> => {
  const values = [...VERSIONS, ...REFS.map((ref) => `https://github.com/o/g#${ref}`)];
  const paths = hasLocals ? FOLDERS.map((folder) => `${up}/${folder}`) : [];
  return fc.dictionary(fc.constantFrom(...NAMES), fc.constantFrom(...values, ...paths), { maxKeys: 3 });
};
const toml = (dependencies: Declared): string =>
  `[dependencies]\n${Object.entries(dependencies)
    .map(([name, value]) => `${name} = "${value}"\n`)
    .join('')}`;
const listOf = (dependencies: Declared): readonly Dependency[] =>
  Object.entries(dependencies).flatMap(([name, value]) => dependencyOf(name, value) ?? []);

test('a lock of what is resolved is believed', async () => {
  const projects = fc.record({
    root: declared('.').map((some) => ({ ...OWN, ...some })),
    locals: fc.tuple(declared('..'), declared('..')),
    published: fc.array(declared('.', false), { minLength: 6, maxLength: 6 }),
  });
  await fc.assert(
    fc.asyncProperty(projects, async ({ root, locals, published }) => {
      const files = new Map(FOLDERS.map((folder, k) => [`/p/${folder}/mops.toml`, toml(locals[k] ?? {})]));
      const manifests = new Manifests(memorySources(files), { root: '/p', ceiling: '/p', environment: 'local' });
      const manifest = parseMopsToml(toml(root), '/p/mops.toml');
      const ids = NAMES.flatMap((name) => VERSIONS.map((version) => packageId(name, version)));
      const graph = new Map(ids.map((id, k) => [id, listOf(published[k] ?? {})]));
      const { packages } = await resolvePackages(manifest, { manifests, graph, fetched: async () => undefined });
      const deps = new Map(
        [...packages].map(([name, { dependency, from }]) => {
          const { source, value } = dependency;
          const path = manifests.nameOf(manifests.folderOf({ dependency, from }));
          return [name, source.kind === 'local' ? dependencyOf(name, path) : dependencyOf(name, value)] as const;
        }),
      ) as ReadonlyMap<string, Dependency>;
      const all = [...deps.values()];
      const idOf = ({ name, source }: Dependency): readonly string[] =>
        source.kind === 'registry' ? [packageId(name, source.version)] : [];
      const lock: MopsLock = {
        rootHash: rootHash(manifest),
        localHash: await manifests.localHash(manifest),
        deps,
        graph,
        trees: new Map(
          all.flatMap(({ name, source }) => (source.kind === 'github' ? [[name, { commit: 'ab', hash: 'cd' }]] : [])),
        ),
        hashed: new Set(all.flatMap(idOf)),
        hashes: new Map(),
      };
      assert.equal(await whyStale(lock, manifest, manifests), undefined);
    }),
    { numRuns: cases(300) },
  );
});
