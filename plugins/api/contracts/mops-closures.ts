/** `svc/contracts/mops-closures`: the suite that every provider of closures of sources has to pass. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ServerError } from '../../../kernel/index.ts';
import { createCompiler } from '../../../subsystems/compiler/motoko-compiler.ts';
import type { MopsClosures } from '../../../subsystems/mops-closure/index.ts';
import { ProjectClosures } from '../../../subsystems/mops-closure/project-closures.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from './runner.ts';

/** Makes the server's own closures of that project. */
export type OwnClosures = () => MopsClosures;

interface Document {
  readonly entry: string;
  readonly files: readonly { readonly path: string; readonly sha256: string; readonly base64: string }[];
  readonly missing: readonly { readonly import: string; readonly from: string }[];
}

/** The project's files. All entries that tests ask for are in `src`. */
const FILES = {
  'src/Main.mo': `import Part "parts/Part"; import Gone "./Gone";
    persistent actor { public query func f() : async Nat { Part.one } };`,
  'src/parts/Part.mo': 'module { public let one = 1 };',
  'src/notes.txt': 'no source',
};

async function projectOf(t: SuiteContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-contract-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const project = join(folder, 'project');
  for (const [path, text] of Object.entries({ ...FILES, '../Outside.mo': 'module {};' })) {
    await mkdir(dirname(join(project, path)), { recursive: true });
    await writeFile(join(project, path), text);
  }
  return project;
}

/** Declares the suite. `make` returns the closures of the project in that folder. */
export function describeMopsClosures(
  name: string,
  make: (context: SuiteContext, project: string, own: OwnClosures) => MopsClosures | Promise<MopsClosures>,
  runner: SuiteRunner = nodeRunner,
): void {
  suite(runner, name, (test) => {
    const made = async (t: SuiteContext) => {
      const project = await projectOf(t);
      const closures = await make(t, project, () => {
        const compiler = createCompiler({ cacheDirectory: undefined, processesMax: 1 });
        t.after(() => compiler.close());
        return new ProjectClosures({ compiler, project });
      });
      return { project, closures };
    };

    test('a document has all that the entry imports, with hash and content, and names what is missing', async (t) => {
      const { closures } = await made(t);
      const { entry, files, missing } = await read(closures, 'src/Main.mo');
      assert.equal(entry, 'src/Main.mo');
      for (const [path, text] of Object.entries(FILES).slice(0, 2)) {
        const file = files.find((each) => each.path === path);
        assert.ok(file !== undefined, `${path} is not in it`);
        assert.equal(Buffer.from(file.base64, 'base64').toString('utf8'), text);
        assert.equal(file.sha256, createHash('sha256').update(text).digest('hex'));
      }
      assert.deepEqual(
        missing.map(({ import: named, from }) => [named, from]),
        [['./Gone', 'src/Main.mo']],
      );
    });

    test('it is the one of the files as they are now, however often it is asked for', async (t) => {
      const { closures, project } = await made(t);
      for (const value of [1, 2, 33]) {
        const text = `module { public let one = ${value} };`;
        await writeFile(join(project, 'src/parts/Part.mo'), text);
        const documents = await Promise.all(Array.from({ length: 3 }, () => read(closures, 'src/Main.mo')));
        for (const { files } of documents)
          assert.equal(
            Buffer.from(files.find(({ path }) => path === 'src/parts/Part.mo')?.base64 ?? '', 'base64').toString(),
            text,
          );
      }
    });

    test('what lies outside of the project is forbidden; what is not there, or no source, is refused', async (t) => {
      const { closures } = await made(t);
      for (const entry of ['../Outside.mo', 'src/../../Outside.mo', '../../../../../../etc/passwd'])
        assert.equal(await kindOf(closures.closureOf(entry)), 'forbidden', entry);
      assert.equal(await kindOf(closures.closureOf('src/Nowhere.mo')), 'missing');
      assert.equal(await kindOf(closures.closureOf('src/notes.txt')), 'invalid');
    });
  });
}

async function read(closures: MopsClosures, entry: string): Promise<Document> {
  const pieces: Uint8Array[] = [];
  for await (const piece of (await closures.closureOf(entry)).pieces()) pieces.push(piece);
  return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(pieces))) as Document;
}

async function kindOf(asked: Promise<unknown>): Promise<string> {
  return asked.then(
    () => 'answered',
    (error: unknown) => (error instanceof ServerError ? error.kind : String(error)),
  );
}
