/**
 * The program behind the command (`svc`, beside this file): checks the version of Node, and runs the server's code in
 * its fastest form (`bundle.js`).
 *
 * Plain JavaScript: for the first `.ts` file that a process imports, Node loads its type stripper, which takes 45 ms
 * and 18 MB. Syntax that an older Node could not parse is imported only after the check of its version.
 */
import { fileURLToPath } from 'node:url';

/** @typedef {typeof import('./main.ts')} Program */

const NODE_MAJOR_MIN = 24;

const major = Number(process.versions.node.split('.')[0]);
if (major < NODE_MAJOR_MIN) {
  process.stderr.write(
    `svc: this is Node ${process.versions.node} (${process.execPath}), and svc needs Node ${NODE_MAJOR_MIN} or later: put one on the PATH, ` +
      'or install svc with its optional packages (npm install --include=optional), which bring one that the command svc takes\n',
  );
  process.exit(1);
}
const ignore = () => undefined;
// Without a handler, Node would open its debugger to every user of this machine.
process.on('SIGUSR1', ignore);
process.on('SIGUSR2', ignore);
// Set by `svc-network-launcher`.
const isNetworkLauncher = process.env['SVC_PROGRAM'] === 'network-launcher';
delete process.env['SVC_PROGRAM'];
// Set by `svc` if the process is to outlive the terminal.
const isHangupIgnored = process.env['SVC_HANGUP'] === 'ignored';
delete process.env['SVC_HANGUP'];
if (isHangupIgnored) process.on('SIGHUP', ignore);
// The reader of the output may end earlier.
process.stdout.on('error', ignore);
const { findProgram } = await import('./bundle.js');
const { program, reason } = await findProgram(fileURLToPath(new URL('..', import.meta.url)));
const { run, launch } = /** @type {Program} */ (await import(program.href));
process.exit(await (isNetworkLauncher ? launch : run)({ notBundled: reason, isHangupIgnored }));
