import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Crc32c } from '../../../subsystems/storage/crc32c.ts';
import { seeded } from '../../support/seeded.ts';

/** Computes the checksum by its definition, bit by bit. */
function bitwise(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ ((crc & 1) === 0 ? 0 : 0x82f63b78);
  }
  return ~crc >>> 0;
}

suite('CRC-32C', () => {
  test('of the examples in RFC 3720 and of its check value', () => {
    const whole = (bytes: Uint8Array): number => new Crc32c(bytes).of(0, bytes.length);
    assert.equal(whole(new Uint8Array(32)), 0x8a9136aa);
    assert.equal(whole(new Uint8Array(32).fill(0xff)), 0x62a8ab43);
    assert.equal(whole(Uint8Array.from({ length: 32 }, (_, at) => at)), 0x46dd794e);
    assert.equal(whole(Uint8Array.from('123456789', (digit) => digit.charCodeAt(0))), 0xe3069283);
  });

  test('of every part of some bytes, wherever it begins and ends', () => {
    const random = seeded(7);
    const bytes = Uint8Array.from({ length: 75 }, () => random.below(256));
    const checksums = new Crc32c(bytes);
    for (let from = 0; from <= bytes.length; from++)
      for (let to = from; to <= bytes.length; to++)
        assert.equal(checksums.of(from, to), bitwise(bytes.subarray(from, to)), `${from} to ${to}`);
  });
});
