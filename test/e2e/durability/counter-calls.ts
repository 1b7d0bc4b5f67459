/** Calls of a durable counter beside something that could delay its answers. */
import assert from 'node:assert/strict';
import type { Agent } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { send } from '../../support/http-client.ts';

const EVERY_MS = 20;

/**
 * Calls a durable counter until it is told to stop; the returned function resolves to the longest time of an answer.
 */
export function callCounter(origin: string, agent: Agent): () => Promise<number> {
  let isOver = false;
  let longestMs = 0;
  const calls: Promise<void>[] = [];
  const call = async (): Promise<void> => {
    const sentMs = performance.now();
    const { status, text } = await send(origin, 'POST', '/call-json/counter/inc', { body: '[]', agent });
    assert.equal(status, 200, text);
    longestMs = Math.max(longestMs, performance.now() - sentMs);
  };
  const calling = (async () => {
    for (; !isOver; await sleep(EVERY_MS)) calls.push(call());
    await Promise.all(calls);
  })();
  return async () => {
    isOver = true;
    await calling;
    return longestMs;
  };
}
