import { readFileSync } from 'node:fs';
import type { RunningServer } from '../../support/server.ts';
import { assemble, type Width } from '../../subsystems/execution/engine-fixture.ts';

const SOURCE = readFileSync(new URL('./hog.wat', import.meta.url), 'utf8');

/** Makes an actor that takes memory (hog.wat). It begins with so many pages of 64 KiB. */
export function hogModule(width: Width, pages = 1): Uint8Array {
  const isWide = width === 64;
  return assemble(
    width,
    SOURCE.replace('(memory %index 1)', `(memory %index ${pages})`)
      .replaceAll('(NUMBER ', isWide ? '(i64.extend_i32_u ' : '(block (result i32) ')
      .replaceAll('(LONG ', isWide ? '(block (result i64) ' : '(i64.extend_i32_u '),
  );
}

interface HogAnswer {
  readonly status: number;
  /** Value of an answer 200. */
  readonly value: number;
  readonly body: string;
}

/** Calls a method with its two numbers. */
export async function callHog(
  server: RunningServer,
  actor: string,
  method: string,
  step = 16,
  most = 0xffff_ffff,
): Promise<HogAnswer> {
  const route = ['get', 'size', 'look_and_grow'].includes(method) ? 'query' : 'call';
  const answer = await server.fetch(`/${route}/${actor}/${method}`, {
    method: 'POST',
    body: new Uint8Array(Uint32Array.of(step, most).buffer),
  });
  const bytes = Buffer.from(await answer.arrayBuffer());
  const value = answer.status === 200 ? Number(bytes.readBigUInt64LE()) : Number.NaN;
  return { status: answer.status, value, body: bytes.toString() };
}
