/**
 * Every path round a loop is tested: endless functions of random shape, loops in loops with branches anywhere, run out
 * of instructions. A counter of their own at each loop's head shows when they have gone on for much too long.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { Instance } from '../../../subsystems/execution/engine/instance.ts';
import { CONTROL_OPTIONS, prepare } from '../../support/bare-canister.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';
import { wat } from '../../support/wat.ts';

const SEEDS = new ProofSeeds(400);
const LIMIT = 5000;
const ROUNDS_MAX = 20_000;
const RANDOM = `(i32.and (i32.const 0x70000)
  (local.tee $s (i32.add (i32.mul (local.get $s) (i32.const 1103515245)) (i32.const 12345))))`;
const LOOP = `(if (i32.eqz (local.tee $rounds (i32.sub (local.get $rounds) (i32.const 1)))) (then (unreachable)))`;

/** Returns statements inside of `labels` blocks; the outermost one is endless. */
function statements(random: Seeded, labels: number): string {
  return Array.from({ length: 1 + random.below(3) }, () => statement(random, labels)).join('\n');
}

function statement(random: Seeded, labels: number): string {
  // Paths that are never or always taken would not be tested by too weak a rule.
  const condition = random.pick([
    '(i32.const 0)',
    '(i32.const 1)',
    `(i32.lt_u ${RANDOM} (i32.const ${0x10000 * (1 + random.below(7))}))`,
  ]);
  const target = random.below(labels);
  const inside = (): string => (labels > 6 ? '(nop)' : statements(random, labels + 1));
  switch (random.below(9)) {
    case 0:
    case 1:
      return `(loop ${LOOP} ${inside()} ${random.oneIn(2) ? `(br_if 0 ${condition})` : `(br_if ${target + 1} ${condition})`})`;
    case 2:
      return `(loop ${LOOP} (if ${condition} (then ${labels > 5 ? '' : statements(random, labels + 2)} (br 1))))`;
    case 3:
      return `(block ${inside()})`;
    case 4:
      return `(if ${condition} (then ${inside()}))`;
    case 5:
      return `(if ${condition} (then ${inside()}) (else ${inside()}))`;
    case 6:
      return `(br_if ${target} ${condition})`;
    case 7:
      return `(block (block (br_table 0 1 ${target + 2} (i32.shr_u ${RANDOM} (i32.const 16)))) ${labels > 5 ? '' : statements(random, labels + 1)})`;
    default:
      return random.oneIn(3) ? `(br ${target})` : '(local.set $s (i32.add (local.get $s) (i32.const 7)))';
  }
}

/** Returns the end of an endless loop around `body`. */
function run(body: string, start: number, control: ControlMemory): string | undefined {
  const bytes = wat(`(module (func (export "canister_update f") (local $s i32) (local $rounds i32)
    (local.set $s (i32.const ${start})) (local.set $rounds (i32.const ${ROUNDS_MAX}))
    (loop ${LOOP} ${body} (br 0))))`);
  const instance = Instance.create(prepare(bytes), {}, control);
  instance.begin(LIMIT);
  const fault = instance.run(0);
  instance.rollback();
  return fault?.kind;
}

/** Paths round past an inner loop that tests the fuel. */
const INNER = `(loop ${LOOP} (br_if 0 (i32.const 0)))`;
const CASES: Readonly<Record<string, string>> = {
  'in an arm': `(if (i32.const 0) (then ${INNER}))`,
  'in the arm before': `(loop ${LOOP} (if (i32.const 0) (then ${INNER}) (else (br 1))))`,
  'in the other arm': `(if (i32.const 1) (then (br 1)) (else ${INNER}))`,
  'jumped over': `(block (br_if 0 (i32.const 1)) ${INNER})`,
  'jumped over by a table': `(block (block (br_table 0 1 (i32.const 1))) ${INNER})`,
  'behind the way round': `(br_if 0 (i32.const 1)) ${INNER}`,
  'behind the way round, in a loop that is tested inside': `(loop ${LOOP} (br_if 1 (i32.const 1)) ${INNER} (br_if 0 (i32.const 0)))`,
};

describe('endless loops', () => {
  for (const [name, body] of Object.entries(CASES)) {
    it(`with an inner one ${name} run out of instructions`, () => {
      assert.equal(run(body, 1, new ControlMemory(CONTROL_OPTIONS)), 'limit');
    });
  }

  it('of any shape run out of instructions', () => {
    const control = new ControlMemory(CONTROL_OPTIONS);
    let loops = 0;
    for (const seed of SEEDS) {
      const random = seeded(seed);
      const body = statements(random, 1);
      loops += body.split('(loop').length - 1;
      assert.equal(run(body, random.below(1e9), control), 'limit', `seed ${seed}\n${body}`);
    }
    SEEDS.saw({ loops });
    assert.ok(loops > SEEDS.count, `${loops} loops`);
  });
});
