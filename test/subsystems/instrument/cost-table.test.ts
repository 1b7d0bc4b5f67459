import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { instructionCosts, systemCallOverhead } from '../../../subsystems/instrument/metering/cost-table.ts';
import { OPCODE_COUNT, opcodeName } from '../../../subsystems/wasm/index.ts';
import { naiveCost } from '../../support/naive-metering.ts';

describe('the cost table', () => {
  for (const width of [32, 64] as const) {
    it(`agrees with the second transcription of the reference on every instruction of ${width}-bit modules`, () => {
      const costs = instructionCosts(width);
      let compared = 0;
      for (let opcode = 0; opcode < OPCODE_COUNT; opcode++) {
        const name = opcodeName(opcode);
        if (name === undefined) continue;
        compared++;
        assert.equal(costs[opcode], naiveCost(name, width === 64), `${name} (0x${opcode.toString(16)})`);
      }
      assert.ok(compared > 400, `only ${compared} instructions are known`);
    });
  }

  it('charges 500 for a system call unless the reference says otherwise', () => {
    assert.equal(systemCallOverhead('msg_reply'), 500);
    assert.equal(systemCallOverhead('call_new'), 1500);
    assert.equal(systemCallOverhead('stable64_read'), 20);
    assert.equal(systemCallOverhead('toString'), 500);
  });
});
