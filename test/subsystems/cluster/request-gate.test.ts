/** Requests for actors that are about to move. */
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { suite, test } from 'node:test';
import { type OpenRequest, RequestGate } from '../../../subsystems/cluster/moves/request-gate.ts';
import { idInShard } from '../../../subsystems/ic/canister-id.ts';

const actor = { id: idInShard(0, 1n) };
const other = { id: idInShard(0, 2n) };

class PlayedRequest extends EventEmitter implements OpenRequest {
  isOpenEnded = false;

  end(): void {
    this.emit('close');
  }
}

suite('the gate of requests', () => {
  test('knows when the last request of an actor is over, and others do not count', () => {
    const gate = new RequestGate();
    const requests = [new PlayedRequest(), new PlayedRequest()];
    for (const request of requests) assert.equal(gate.enter(actor, request), undefined);
    void gate.enter(other, new PlayedRequest());
    requests[0]?.end();
    assert.equal(gate.isQuiet(actor), false);
    requests[1]?.end();
    assert.equal(gate.isQuiet(actor), true);
    assert.equal(gate.isQuiet(other), false);
  });

  test('does not wait for a stream that has begun', () => {
    const gate = new RequestGate();
    const stream = new PlayedRequest();
    void gate.enter(actor, stream);
    assert.equal(gate.isQuiet(actor), false);
    stream.isOpenEnded = true;
    assert.equal(gate.isQuiet(actor), true);
  });

  test('lets requests of a closed actor wait, uncounted, and nobody else', async () => {
    const gate = new RequestGate();
    const open = gate.close(actor.id);
    const waiting = gate.enter({ id: actor.id.slice() }, new PlayedRequest());
    assert.ok(waiting);
    assert.equal(gate.isQuiet(actor), true);
    assert.equal(gate.enter(other, new PlayedRequest()), undefined);
    let isOver = false;
    void waiting.then(() => (isOver = true));
    await Promise.resolve();
    assert.equal(isOver, false);
    open();
    await waiting;
    assert.equal(gate.enter(actor, new PlayedRequest()), undefined);
  });

  test('stays closed for a second closer when the first one opens, and both are let go', async () => {
    const gate = new RequestGate();
    const first = gate.close(actor.id);
    const before = gate.waitFor(actor.id);
    const second = gate.close(actor.id);
    first();
    await before;
    assert.ok(gate.waitFor(actor.id));
    second();
    assert.equal(gate.waitFor(actor.id), undefined);
  });
});
