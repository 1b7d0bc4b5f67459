/** Faults of what mops.toml leads the compiler to: interfaces of principals, aliases, and flags of its own. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createCompiler } from '../../../subsystems/compiler/motoko-compiler.ts';

const compiler = createCompiler({ cacheDirectory: undefined, processesMax: 1 });
after(() => compiler.close());

const ID = 'rrkah-fqaaa-aaaaa-aaaaq-cai';
const BY_ID = `import X "ic:${ID}"; persistent actor { public func f() : async () { ignore X } }`;
const BY_NAME = BY_ID.replace(`ic:${ID}`, 'canister:led');

interface Faulty {
  readonly args: readonly string[];
  readonly files?: Readonly<Record<string, string>>;
  readonly source?: string;
}

async function faultOf({ args, files = {}, source = BY_ID }: Faulty): Promise<string> {
  const manifest = `[moc]\nargs = ${JSON.stringify(args)}\n`;
  const given = new Map(Object.entries({ 'Main.mo': source, 'mops.toml': manifest, ...files }));
  try {
    await compiler.compileText(given);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return assert.fail('it compiles');
}

test('a fault of an interface is told of the file that has it', async () => {
  const args = ['--actor-idl=idl'];
  const path = `idl/${ID}.did`;
  const faultIn = (text: string): Promise<string> => faultOf({ args, files: { [path]: text } });
  assert.match(
    await faultIn('service : { a : (blob) -> (; }'),
    new RegExp(`^${path}:1\\.\\d+-1\\.\\d+: syntax error`, 'mu'),
  );
  assert.match(await faultIn('type T = nat;'), new RegExp(`file ${path} does not define a service$`, 'mu'));
  const imports = await faultIn('type A = nat;\nimport "parts/x.did";\nservice : {}');
  assert.match(
    imports,
    new RegExp(`^${path}:2\\.8-2\\.21: .*import "parts/x\\.did" of an interface is not followed; write what`, 'mu'),
  );
  assert.match(imports, /^ +2 \| import "parts\/x\.did";\n +\| +\^{13}$/mu);
});

test('an alias without an interface names the file that it needs', async () => {
  const alias = ['--actor-alias', 'led', ID] as const;
  const said = await faultOf({ args: ['--actor-idl=idl', ...alias], source: BY_NAME });
  assert.match(
    said,
    new RegExp(`"led".*; --actor-alias led ${ID} finds no interface: there is no idl/${ID}\\.did$`, 'mu'),
  );
  const nowhere = await faultOf({ args: alias, source: BY_NAME });
  assert.match(nowhere, /--actor-alias led .* needs an interface: write args = \["--actor-idl=idl"\] below \[moc\]/u);
  const unreadable = await faultOf({
    args: ['--actor-idl=idl', ...alias],
    source: BY_NAME,
    files: { [`idl/${ID}.did`]: 'service : {' },
  });
  assert.match(unreadable, new RegExp(`^idl/${ID}\\.did:1\\.`, 'mu'));
});

test('a code that is no warning is refused with its flag, and the compiler goes on', async () => {
  const source = 'persistent actor {}';
  for (const flag of ['-W=M9999', '-A=M0194,M9999', '-E=M9999'])
    assert.equal(
      await faultOf({ args: ['-A=M0223', flag], source }),
      `cannot use mops.toml: "${flag}" in [moc] args has M9999, which is no warning of the bundled compiler; remove it`,
    );
  const { wasm } = await compiler.compileText(new Map([['Main.mo', source]]));
  assert.ok(wasm.length > 0);
});
