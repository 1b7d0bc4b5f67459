/**
 * `GET /mops/closure/<ENTRY>` over a real socket: the closure of files on a disk, and the files that may not leave a
 * project.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, it, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createCompiler } from '../../../subsystems/compiler/motoko-compiler.ts';
import { ConfinedSources } from '../../../subsystems/mops-closure/confined-sources.ts';
import { ProjectClosures } from '../../../subsystems/mops-closure/project-closures.ts';
import { send } from '../../support/http-client.ts';
import { startHttpHost } from '../http/counter-host.ts';

const FIXTURE = fileURLToPath(new URL('../../fixtures/mops', import.meta.url));

interface Document {
  readonly entry: string;
  readonly files: readonly {
    readonly path: string;
    readonly package: string | null;
    readonly sha256: string;
    readonly base64: string;
  }[];
  readonly missing: readonly { readonly import: string; readonly from: string }[];
  readonly unusable: readonly {
    readonly import: string;
    readonly from: string;
    readonly path: string;
    readonly reason: string;
  }[];
  readonly external: readonly { readonly import: string; readonly from: string }[];
  readonly warnings: readonly string[];
}

describe('GET /mops/closure/<ENTRY>', () => {
  const compiler = createCompiler({ cacheDirectory: undefined, processesMax: 1 });
  after(() => compiler.close());

  async function folder(t: TestContext): Promise<string> {
    const path = await mkdtemp(join(tmpdir(), 'svc-mops-'));
    t.after(() => rm(path, { recursive: true, force: true }));
    return path;
  }
  async function write(root: string, files: Readonly<Record<string, string | Uint8Array>>): Promise<void> {
    for (const [path, content] of Object.entries(files)) {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), content);
    }
  }
  /** Starts a server for a project with these files; `project` is a folder inside one that only the test has. */
  async function serve(t: TestContext, files: Readonly<Record<string, string | Uint8Array>>) {
    const around = await folder(t);
    const project = join(around, 'project');
    await write(project, files);
    return { around, project, ...(await serverOf(t, project)) };
  }
  async function serverOf(t: TestContext, project: string | undefined) {
    const closures = new ProjectClosures({ compiler, project });
    const { origin } = await startHttpHost(t, { mopsClosures: closures });
    const ask = (entry: string) => send(origin, 'GET', `/mops/closure/${entry}`);
    const documentOf = async (entry: string): Promise<Document> => {
      const answer = await ask(entry);
      assert.equal(answer.status, 200, answer.text);
      assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8');
      return answer.json() as Document;
    };
    const refusal = async (entry: string): Promise<readonly [number, string]> => {
      const answer = await ask(entry);
      return [answer.status, (answer.json() as { readonly message: string }).message];
    };
    return { closures, documentOf, refusal };
  }
  const pathsOf = ({ files }: Document): readonly string[] => files.map(({ path }) => path);

  it('has every file of the closure, of packages and of the library too, with hash and content, by path', async (t) => {
    const { documentOf } = await serverOf(t, FIXTURE);
    const document = await documentOf('src/Main.mo');
    const own = document.files.filter(({ package: name }) => name !== 'core');
    assert.equal(document.entry, 'src/Main.mo');
    assert.deepEqual(
      own.map(({ path, package: name }) => [path, name]),
      [
        ['greet@1.2.0/src/lib.mo', 'greet'],
        ['shapes/src/Square.mo', 'shapes'],
        ['src/Main.mo', null],
        ['src/parts/Part.mo', null],
        ['tools/Twice.mo', 'tools'],
        ['words@0.2.0/lib/lib.mo', 'words@0.2.0'],
        ['words@0.3.1/src/deep/Polite.mo', 'words'],
        ['words@0.3.1/src/lib.mo', 'words'],
      ],
    );
    assert.ok(document.files.some(({ path }) => /^core@\d+\.\d+\.\d+\/Nat\.mo$/u.test(path)));
    assert.deepEqual(pathsOf(document), pathsOf(document).toSorted());
    for (const { sha256, base64 } of document.files)
      assert.equal(createHash('sha256').update(Buffer.from(base64, 'base64')).digest('hex'), sha256);
    const main = own.find(({ path }) => path === 'src/Main.mo');
    assert.deepEqual(Buffer.from(main?.base64 ?? '', 'base64'), await readFile(join(FIXTURE, 'src/Main.mo')));
    assert.deepEqual([document.missing, document.external], [[], []]);
  });

  it('names what is missing and what is no source, bytes as they are on the disk', async (t) => {
    const bytes = Buffer.from(
      '\u{feff}/// doc\nimport A "canister:led"; import B "blob:file:x"; import C "./no"; import D "mo:gone/X"; import E "mo:core/Nope"; import F "mo:base/Nat"; import G "./bad";\nactor {}',
    );
    const { documentOf } = await serve(t, { 'a b/ü.mo': bytes, 'a b/bad.mo': Uint8Array.of(0xff, 0xfe) });
    const document = await documentOf('a%20b/%C3%BC.mo');
    assert.deepEqual(pathsOf(document), ['a b/ü.mo']);
    assert.deepEqual(Buffer.from(document.files[0]?.base64 ?? '', 'base64'), bytes);
    const from = 'a b/ü.mo';
    const urls = ['blob:file:x', './no', 'mo:gone/X', 'mo:base/Nat', 'mo:core/Nope'];
    assert.deepEqual(
      document.missing,
      urls.map((url) => ({ import: url, from })),
    );
    assert.deepEqual(
      document.external,
      ['canister:led'].map((url) => ({ import: url, from })),
    );
    assert.deepEqual(document.unusable, [
      {
        import: './bad',
        from,
        path: 'a b/bad.mo',
        reason: 'cannot read a b/bad.mo: it is not UTF-8 text (line 1); save it as UTF-8',
      },
    ]);
    assert.deepEqual(document.warnings, []);
  });

  it('tells a file that mops.lock does not mean as that, and each import of a file once', async (t) => {
    const hash = (text: string): string => createHash('sha256').update(text).digest('hex');
    const deps = { a: '1.0.0', b: '1.0.0' };
    const twice = 'import A "mo:a/X"; import B "mo:a/X";';
    const files = {
      'Main.mo': `${twice} import M "./Gone"; import N "./Gone"; import L "./L"; import C "canister:c"; import D "canister:c";
        import E "mo:core/Nope"; import F "mo:core/Nope"; actor {}`,
      'L.mo': 'import A "mo:a/X"; import B "mo:b"; import M "./Gone"; import E "mo:core/Nope"; module {}',
      'mops.toml': '[dependencies]\na = "1.0.0"\nb = "1.0.0"',
      '.mops/a@1.0.0/src/X.mo': 'module {}',
      '.mops/b@1.0.0/mops.toml': '[package]',
      '.mops/b@1.0.0/src/lib.mo': 'module {}',
      'mops.lock': JSON.stringify({
        version: 3,
        mopsTomlDepsHash: hash(JSON.stringify(deps)),
        deps,
        hashes: {
          'a@1.0.0': { 'a@1.0.0/src/X.mo': hash('module { }') },
          'b@1.0.0': { 'b@1.0.0/mops.toml': hash('[package] ') },
        },
      }),
    };
    const { documentOf, project } = await serve(t, files);
    const document = await documentOf('Main.mo');
    assert.deepEqual(pathsOf(document), ['L.mo', 'Main.mo']);
    assert.deepEqual(
      document.unusable.map(({ reason, ...found }) => [found, reason.replace(/[0-9a-f]{16}…/gu, '#')]),
      [
        ['mo:a/X', 'Main.mo', 'a@1.0.0/src/X.mo', 'a@1.0.0/src/X.mo'],
        ['mo:a/X', 'L.mo', 'a@1.0.0/src/X.mo', 'a@1.0.0/src/X.mo'],
        ['mo:b', 'L.mo', '.mops/b@1.0.0/mops.toml', '.mops/b@1.0.0/mops.toml'],
      ].map(([url, from, path, named]) => [
        { import: url, from, path },
        `${named} is not the file that mops.lock means: its SHA-256 is #, and not #; run mops install`,
      ]),
    );
    const places = (...imports: readonly (readonly [string, string])[]) =>
      imports.map(([url, from]) => ({ import: url, from }));
    assert.deepEqual(
      document.missing,
      places(['./Gone', 'Main.mo'], ['./Gone', 'L.mo'], ['mo:core/Nope', 'L.mo'], ['mo:core/Nope', 'Main.mo']),
    );
    assert.deepEqual(document.external, places(['canister:c', 'Main.mo']));
    // A lock that must not be believed is no reason to refuse a file.
    await write(project, { 'mops.lock': files['mops.lock'].replace('"version":3', '"version":2') });
    const stale = await documentOf('Main.mo');
    assert.deepEqual(
      [stale.unusable, pathsOf(stale)],
      [[], ['L.mo', 'Main.mo', 'a@1.0.0/src/X.mo', 'b@1.0.0/src/lib.mo']],
    );
    assert.deepEqual(stale.warnings, [
      'mops.lock: it is stale and was not used: its version is 2, and not 3 (line 1, column 12); run mops install, which writes it anew',
    ]);
  });

  it('answers 403 where anything is outside of the project: paths, links, packages, in the entry or behind it', async (t) => {
    const { around, project, refusal, documentOf } = await serve(t, {
      'Up.mo': '// Above.\nimport S "../secret"; actor {}',
      'Link.mo': 'import L "./linked"; actor {}',
      'Folder.mo': 'import L "./away/secret"; actor {}',
      'inside/Real.mo': 'module {}',
      'Inner.mo': 'import L "./inner"; actor {}',
      'far/mops.toml': '[dependencies]\nfar = "../../elsewhere"',
      'far/Main.mo': 'import F "mo:far/A"; actor {}',
      'pack/mops.toml': '[dependencies]\np = "1.0.0"',
      'pack/Main.mo': 'import P "mo:p"; actor {}',
    });
    await write(around, {
      'secret.mo': 'module {}',
      'mops.toml': '[dependencies]\nabove = "./elsewhere"',
      'elsewhere/A.mo': 'module {}',
      'p/src/lib.mo': 'module {}',
    });
    await mkdir(join(project, 'pack/.mops'));
    await symlink(join(around, 'secret.mo'), join(project, 'linked.mo'));
    await symlink(around, join(project, 'away'));
    await symlink(join(around, 'p'), join(project, 'pack/.mops/p@1.0.0'));
    await symlink('inside/Real.mo', join(project, 'inner.mo'));
    for (const [entry, who] of [
      ['..%2Fsecret.mo'],
      ['../secret.mo'],
      ['inside/../../secret'],
      ['..%2F..%2Fetc%2Fpasswd'],
      ['linked.mo'],
      ['away/secret.mo'],
      ['Up.mo', 'Up.mo:2 has import "../secret"'],
      ['Link.mo', 'Link.mo:1 has import "./linked"'],
      ['Folder.mo', 'Folder.mo:1 has import "./away/secret"'],
      ['far/Main.mo', 'far/mops.toml has far = "../../elsewhere"'],
      ['pack/Main.mo'],
    ] as const) {
      const [status, message] = await refusal(entry);
      assert.equal(status, 403, entry);
      const says =
        /outside of the directory that --project names; name one that holds all, or move it there(?: \((.*)\))?$/u;
      assert.match(message, says);
      assert.equal(says.exec(message)?.[1], who);
      assert.ok(!message.includes(around), message);
    }
    // A link that stays inside is a file like any other.
    assert.deepEqual(pathsOf(await documentOf('Inner.mo')), ['Inner.mo', 'inner.mo']);
    // The manifest above the project does not belong to it.
    await write(project, { 'Above.mo': 'import A "mo:above/A"; actor {}' });
    assert.deepEqual((await documentOf('Above.mo')).missing, [{ import: 'mo:above/A', from: 'Above.mo' }]);
  });

  it('has an interface that is no text among what cannot be used, and not among what is missing', async (t) => {
    const [there, gone] = ['ic:rrkah-fqaaa-aaaaa-aaaaq-cai', 'ic:ryjl3-tyaaa-aaaaa-aaaba-cai'];
    const path = 'idl/rrkah-fqaaa-aaaaa-aaaaq-cai.did';
    const { documentOf } = await serve(t, {
      'Main.mo': `import A "${there}"; import B "${gone}"; actor {}`,
      'mops.toml': '[moc]\nargs = ["--actor-idl=idl"]\n',
      [path]: Uint8Array.of(0xff),
    });
    const { missing, unusable } = await documentOf('Main.mo');
    assert.deepEqual(missing, [{ import: gone, from: 'Main.mo' }]);
    const reason = `cannot read ${path}: it is not UTF-8 text (line 1); save it as UTF-8`;
    assert.deepEqual(unusable, [{ import: there, from: 'Main.mo', path, reason }]);
  });

  it('names the flag that leads to nothing, or out of the project, and the manifest that has it', async (t) => {
    const manifest = (...args: readonly string[]): string => `[moc]\nargs = ${JSON.stringify(args)}\n`;
    const { around, project, refusal, documentOf } = await serve(t, {
      'sub/Main.mo': 'actor {}',
      'sub/mops.toml': manifest('--enhanced-migration', './none', '--implicit-package=gone'),
      'Main.mo': 'actor {}',
      'mops.toml': manifest('--implicit-package', 'gone', '--enhanced-migration=none/below'),
      'far/Main.mo': 'actor {}',
      'far/mops.toml': manifest('--enhanced-migration=../../elsewhere'),
      'link/Main.mo': 'actor {}',
      'link/mops.toml': manifest('--enhanced-migration', 'away'),
    });
    await write(around, { 'elsewhere/1.mo': 'module {}' });
    await symlink(join(around, 'elsewhere'), join(project, 'link/away'));
    for (const [below, flag] of [
      ['sub/', '--enhanced-migration=none'],
      ['', '--enhanced-migration=none/below'],
    ] as const) {
      const from = `${below}mops.toml`;
      const { missing } = await documentOf(`${below}Main.mo`);
      assert.deepEqual(missing, [
        { import: '--implicit-package=gone', from },
        { import: flag, from },
      ]);
    }
    for (const [entry, who] of [
      ['far/Main.mo', 'far/mops.toml has --enhanced-migration=../../elsewhere'],
      ['link/Main.mo', 'link/mops.toml has --enhanced-migration=away'],
    ] as const) {
      const [status, message] = await refusal(entry);
      assert.equal(status, 403, message);
      assert.ok(message.endsWith(`(${who})`), message);
      assert.ok(!message.includes(around), message);
    }
  });

  it('answers each bad entry and manifest with its status and reason', async (t) => {
    const { project, refusal } = await serve(t, {
      'Main.mo': 'import P "mo:p"; actor {}',
      'mops.toml': `#${'x'.repeat(400_000)}`,
      'below/Main.mo': 'import P "mo:p"; actor {}',
      'below/mops.toml': '[dependencies',
      'latin1.mo': Uint8Array.of(0xff),
      '.env': 'TOKEN=1',
      'folder.mo/x': '',
    });
    execFileSync('mkfifo', [join(project, 'pipe.mo')]);
    for (const [entry, status, says] of [
      ['None.mo', 404, /^there is no file None\.mo in the project$/u],
      ['folder.mo', 404, /^there is no file folder\.mo/u],
      ['.env', 400, /is not the path of a Motoko file/u],
      ['a%00.mo', 400, /is not the path of a Motoko file/u],
      ['pipe.mo', 400, /^cannot read pipe\.mo: it is not a regular file/u],
      ['latin1.mo', 400, /^cannot read latin1\.mo: it is not UTF-8 text/u],
      ['Main.mo', 400, /^cannot use mops\.toml: it has more than 262144 characters/u],
      ['below/Main.mo', 400, /^cannot use below\/mops\.toml: it is not TOML \(line 1/u],
    ] as const) {
      const [got, message] = await refusal(entry);
      assert.equal(got, status, `${entry}: ${message}`);
      assert.match(message, says);
      assert.ok(!message.includes(project), message);
    }
    const unset = await serverOf(t, undefined);
    assert.deepEqual(await unset.refusal('Main.mo'), [404, 'this server has no project: start it with --project DIR']);
    const absent = new ProjectClosures({ compiler, project: join(project, 'no') });
    await assert.rejects(absent.open(), { code: 'project-unusable' });
    await rm(project, { recursive: true });
    assert.deepEqual(await refusal('Main.mo'), [404, `--project ${project}: there is no such directory`]);
  });

  it('is kept until a file changes, comes or goes, also one that was looked for in vain', async (t) => {
    const { project, closures } = await serve(t, {
      'Main.mo': 'import A "./A"; import B "./B"; import P "mo:p"; actor {}',
      'A/lib.mo': 'module {}',
      'mops.toml': '[dependencies]\np = "./p"',
      'p/lib.mo': 'module {}',
    });
    const pathsNow = async (isCached: boolean): Promise<readonly string[]> => {
      const document = await closures.closureOf('Main.mo');
      assert.equal(document.isCached, isCached);
      const pieces: Uint8Array[] = [];
      for await (const piece of document.pieces()) pieces.push(piece);
      return pathsOf(JSON.parse(Buffer.concat(pieces).toString()) as Document);
    };
    assert.deepEqual(await pathsNow(false), ['A/lib.mo', 'Main.mo', 'p/lib.mo']);
    assert.deepEqual(await pathsNow(true), ['A/lib.mo', 'Main.mo', 'p/lib.mo']);
    await write(project, { 'A.mo': 'module {}' });
    assert.deepEqual(await pathsNow(false), ['A.mo', 'Main.mo', 'p/lib.mo']);
    await write(project, { 'B/lib.mo': 'module {}' });
    assert.deepEqual(await pathsNow(false), ['A.mo', 'B/lib.mo', 'Main.mo', 'p/lib.mo']);
    await rm(join(project, 'A.mo'));
    await mkdir(join(project, 'p/src'));
    await write(project, { 'p/src/lib.mo': 'module {}' });
    assert.deepEqual(await pathsNow(false), ['A/lib.mo', 'B/lib.mo', 'Main.mo', 'p/src/lib.mo']);
    // The file has the same size, and the same time of its last change.
    const at = new Date();
    await utimes(join(project, 'B/lib.mo'), at, at);
    assert.equal((await pathsNow(false)).length, 4);
    await write(project, { 'B/lib.mo': 'module  ' });
    await utimes(join(project, 'B/lib.mo'), at, at);
    assert.equal((await pathsNow(false)).length, 4);
    assert.equal((await pathsNow(true)).length, 4);
  });

  it('a file that grows while it is read is read again, and given up if that goes on', async (t) => {
    const project = await folder(t);
    await write(project, { 'Main.mo': 'actor {}' });
    const file = join(project, 'Main.mo');
    let writes = 0;
    class Disturbed extends ConfinedSources {
      readonly times: number;
      constructor(times: number) {
        super(project);
        this.times = times;
      }
      protected override async betweenLooks(): Promise<void> {
        if (writes++ < this.times) await writeFile(file, `actor { /* ${'x'.repeat(writes)} */ }`);
      }
    }
    assert.match((await new Disturbed(2).read(file)) ?? '', /xx /u);
    writes = 0;
    await assert.rejects(new Disturbed(10).read(file), {
      code: 'source-changing',
      message: /^Main\.mo changes while/u,
    });
  });

  it('a folder that goes while it is looked at is none, and what was found is no longer current', async (t) => {
    const project = await folder(t);
    await mkdir(join(project, 'pack'));
    class Disturbed extends ConfinedSources {
      protected override async betweenLooks(): Promise<void> {
        await rm(join(project, 'pack'), { recursive: true, force: true });
      }
    }
    const sources = new Disturbed(project);
    assert.equal(await sources.isFolder(join(project, 'pack')), false);
    assert.equal(await sources.isCurrent(), false);
  });

  it('what is wrong with a file that has changed since is not told: all is read again, and given up if that goes on', async (t) => {
    const project = await folder(t);
    await write(project, { 'Main.mo': 'import P "mo:p"; actor {}', 'mops.toml': '[dep' });
    let writes = 0;
    let writesMax = 1;
    const closures = new ProjectClosures({
      project,
      compiler: {
        async closureOf(...asked) {
          try {
            return await compiler.closureOf(...asked);
          } finally {
            const text = writesMax === 1 ? '[dependencies]' : '[dep';
            if (++writes <= writesMax) await writeFile(join(project, 'mops.toml'), `${text}\n#${'x'.repeat(writes)}`);
          }
        },
      },
    });
    assert.equal((await closures.closureOf('Main.mo')).isCached, false);
    await write(project, { 'mops.toml': '[dep' });
    [writes, writesMax] = [0, 10];
    await assert.rejects(closures.closureOf('Main.mo'), { code: 'source-changing' });
    [writes, writesMax] = [0, 0];
    await assert.rejects(closures.closureOf('Main.mo'), { code: 'mops-invalid', message: /\(line 1, column \d+\)/u });
  });

  it('whoever asks at the same time gets one collection', async (t) => {
    const project = await folder(t);
    await cp(FIXTURE, project, { recursive: true });
    let collections = 0;
    const closures = new ProjectClosures({
      project,
      compiler: {
        closureOf: (...asked) => {
          collections++;
          return compiler.closureOf(...asked);
        },
      },
    });
    await Promise.all(Array.from({ length: 50 }, () => closures.closureOf('src/Main.mo')));
    assert.equal(collections, 1);
    await write(project, Object.fromEntries(Array.from({ length: 60 }, (_, k) => [`m${k}.mo`, 'actor {}'])));
    const answers = await Promise.allSettled(Array.from({ length: 60 }, (_, k) => closures.closureOf(`m${k}.mo`)));
    const busy = answers.filter((answer) => answer.status === 'rejected');
    assert.ok(busy.length > 0 && busy.length <= 26, `${busy.length} were refused`);
    assert.ok(busy.every(({ reason }) => (reason as { code?: string }).code === 'closure-busy'));
  });

  it('a large document comes in many pieces and is whole', async (t) => {
    const line = `/// ${'x'.repeat(96)}\n`;
    const files = Object.fromEntries(
      Array.from({ length: 4 }, (_, k) => [`L${k}.mo`, `import N "./L${k + 1}";\n${line.repeat(40_000)}module {}`]),
    );
    const { closures } = await serve(t, { ...files, 'L4.mo': 'module {}' });
    const document = await closures.closureOf('L0.mo');
    const pieces: Uint8Array[] = [];
    for await (const piece of document.pieces()) pieces.push(piece);
    assert.ok(pieces.length >= 16 && pieces.every(({ length }) => length < 3_000_000));
    const parsed = JSON.parse(Buffer.concat(pieces).toString()) as Document;
    assert.equal(parsed.files.length, 5);
    assert.equal(Buffer.from(parsed.files[0]?.base64 ?? '', 'base64').toString(), files['L0.mo']);
    assert.equal((await closures.closureOf('L0.mo')).isCached, false);
  });
});
