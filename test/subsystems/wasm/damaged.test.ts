/** Damaged modules are refused, or are still modules that V8 accepts; nothing crashes, nothing hangs. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { instrument } from '../../../subsystems/instrument/index.ts';
import { ByteWriter, decodeModule, signedLeb, validateCanister } from '../../../subsystems/wasm/index.ts';
import { randomModule } from '../../support/random-module.ts';
import { seeded } from '../../support/seeded.ts';
import { wat } from '../../support/wat.ts';

const FLIPS = 3000;

/**
 * Loads a module; returns true if it was accepted. Any error but a refusal, and any output that V8 refuses, fails the
 * test.
 */
function isTaken(bytes: Uint8Array, what: string): boolean {
  let code: Uint8Array;
  try {
    const module = decodeModule(bytes);
    validateCanister(module);
    code = instrument(module).bytes;
  } catch (error) {
    assert.ok(
      error instanceof ServerError && error.kind === 'invalid',
      `${what}: ${error instanceof Error ? error.stack : String(error)}`,
    );
    assert.ok(error.message.length < 1000, what);
    return false;
  }
  try {
    assert.ok(new WebAssembly.Module(code));
  } catch (error) {
    assert.fail(`${what}: V8 refuses what was made of it: ${String(error)}`);
  }
  return true;
}

describe('a damaged module', () => {
  const whole = wat(randomModule(12).text);

  it('is refused when it is cut at any byte', () => {
    assert.ok(isTaken(whole, 'whole'));
    for (let length = 0; length < whole.length; length++) {
      // A module that is cut between two sections may still be one, if the rest is not needed.
      if (isTaken(whole.subarray(0, length), `cut at ${length}`))
        assert.ok(WebAssembly.validate(whole.subarray(0, length)), `cut at ${length}`);
    }
  });

  it('is refused or harmless when bytes are changed', () => {
    const random = seeded(99);
    const modules = [whole, wat(randomModule(3).text), wat(randomModule(4).text)];
    let taken = 0;
    for (let flip = 0; flip < FLIPS; flip++) {
      const bytes = (modules[flip % modules.length] ?? whole).slice();
      for (let k = 1 + random.below(3); k > 0; k--)
        bytes[8 + random.below(bytes.length - 8)] = random.oneIn(3)
          ? random.below(256)
          : random.pick([0, 1, 0x0b, 0x7f, 0x80, 0xff, 0x40, 0x41]);
      if (isTaken(bytes, `flip ${flip}`)) taken++;
    }
    assert.ok(taken > FLIPS / 50 && taken < FLIPS, `${taken} of ${FLIPS} were taken`);
  });
});

describe('numbers in the binary format', () => {
  it('come back as they were written, at every size and padded', () => {
    for (const value of [0, 1, 63, 64, 127, 128, 2 ** 31, 2 ** 32 - 1, 2 ** 45, 2 ** 53 - 1]) {
      for (const signed of [value, -value, -value - 1]) {
        if (!Number.isSafeInteger(signed)) continue;
        const writer = new ByteWriter();
        writer.signed(signed);
        const bytes = [...writer.written()];
        assert.equal(signedLeb(Uint8Array.from(bytes), 0, bytes.length), signed + 0, String(signed));
        // A linker pads to ten bytes so that it can insert the number later.
        const filler = signed < 0 ? 0x7f : 0;
        const padded = [
          ...bytes.map((byte) => byte | 0x80),
          ...Array.from({ length: 9 - bytes.length }, () => filler | 0x80),
          filler,
        ];
        assert.equal(signedLeb(Uint8Array.from(padded), 0, padded.length), signed + 0, `${signed}, padded`);
      }
    }
  });
});
