/** The command `icp` as it comes from npm, in a home of its own. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { INSTALL, plainEnvironment } from './packages.ts';

const run = promisify(execFile);
const PACKAGE = '@icp-sdk/icp-cli-linux-x64';
const VERSION = '1.5.0';
const SHA256 = 'ce8b4b89a5f06589bdeff578359f2da9581195484811495ae8c95c0ccd57bec9';

export interface Icp {
  /** Runs a command in the project; resolves with what it wrote to both streams. Rejects if it fails. */
  (...args: readonly string[]): Promise<string>;
  /** Environment in which a shell finds the command. */
  readonly environment: NodeJS.ProcessEnv;
}

/** Installs the command, and returns it for a project. */
export async function installIcp(directory: string, project: string): Promise<Icp> {
  await run('npm', [...INSTALL, '--prefix', directory, `${PACKAGE}@${VERSION}`], { env: plainEnvironment() });
  const folder = join(directory, 'node_modules', PACKAGE, 'bin');
  const file = join(folder, 'icp');
  assert.equal(
    createHash('sha256')
      .update(await readFile(file))
      .digest('hex'),
    SHA256,
  );
  const home = join(directory, 'home');
  await mkdir(home);
  const environment = plainEnvironment({
    HOME: home,
    PATH: `${folder}:${process.env['PATH'] ?? ''}`,
    ICP_TELEMETRY_DISABLED: '1',
    DO_NOT_TRACK: '1',
  });
  const icp = async (...args: readonly string[]): Promise<string> => {
    try {
      const { stdout, stderr } = await run(file, args, { cwd: project, env: environment });
      return stdout + stderr;
    } catch (error) {
      const { stdout, stderr } = error as { readonly stdout?: string; readonly stderr?: string };
      throw new Error(`icp ${args.join(' ')} failed:\n${stdout ?? ''}${stderr ?? String(error)}`, { cause: error });
    }
  };
  return Object.assign(icp, { environment });
}
