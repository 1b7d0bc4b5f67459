/** Servers that refuse their state directory, and servers whose disk becomes full. */
import assert from 'node:assert/strict';
import type { Deployment, Refusal } from './deployment.ts';

export function assertRefused({ code, stdout, stderr }: Refusal, message: RegExp): void {
  assert.equal(code, 1, `${stdout}${stderr}`);
  assert.doesNotMatch(stdout, /^ready/m);
  assert.match(stderr, message);
  // The output is one line for the operator, without a stack.
  assert.doesNotMatch(stderr, /^\s+at /m);
}

/** Sends what grows until the server ends; returns how many were acknowledged. */
export async function fillUp(deployment: Deployment): Promise<number> {
  const { server } = deployment.host;
  const argument = JSON.stringify([Buffer.alloc(1_000_000, 'y').toString('base64')]);
  for (let count = 0; count < 400; count++) {
    const answer = await server.post('/call-json/keeper/keep', argument).catch(() => undefined);
    if (answer?.status !== 200) return count;
  }
  return assert.fail('the disk was never full');
}

/**
 * Checks that the full disk has ended the server, and that the server serves everything when it is started with free
 * space again.
 */
export async function checkAfterFullDisk(deployment: Deployment, acknowledged: number): Promise<void> {
  const { server } = deployment.host;
  await new Promise((resolve) => {
    if (server.process.exitCode === null) server.process.once('exit', resolve);
    else resolve(undefined);
  });
  assert.equal(server.process.exitCode, 1);
  assert.match(server.output.stderr, /cannot be written|no space left/i);
  const host = await deployment.start();
  const kept = await host.query(await host.find('keeper'), 'size');
  assert.ok(kept === acknowledged || kept === acknowledged + 1, `${acknowledged} acknowledged, ${String(kept)} kept`);
  assert.deepEqual(await host.query(await host.find('other'), 'all'), [1]);
  assert.equal(await host.call(await host.find('other'), 'append', [2]), 2);
  await deployment.stop();
}
