import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { CborWriter, decodeCbor } from '../../../subsystems/certification/index.ts';
import { seeded } from '../../support/seeded.ts';

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');

function refusal(bytes: Uint8Array): string {
  try {
    decodeCbor(bytes);
  } catch (error) {
    assert.ok(error instanceof ServerError && error.code === 'cbor-bad', String(error));
    return error.message;
  }
  throw new Error('it was taken');
}

/** An envelope as clients send them. */
function envelope(): Uint8Array {
  const out = new CborWriter().selfDescribed().map(2).text('content').map(3);
  out.text('paths').array(2).array(1).bytes(hex('74696d65')).array(0).text('sender').bytes(hex('04'));
  return out
    .text('ingress_expiry')
    .unsigned(2n ** 60n)
    .text('big')
    .unsigned(300)
    .done();
}

suite('CBOR from outside', () => {
  test('what is written is read', () => {
    const value = decodeCbor(envelope());
    assert.ok(value instanceof Map);
    assert.equal(value.get('big'), 300n);
    const content = value.get('content') as ReadonlyMap<string, unknown>;
    assert.deepEqual(content.get('paths'), [[hex('74696d65')], []]);
    assert.equal(content.get('ingress_expiry'), 2n ** 60n);
    for (const number of [0, 23, 24, 255, 256, 65_535, 65_536, 2 ** 32 - 1, 2 ** 32])
      assert.equal(decodeCbor(new CborWriter().unsigned(number).done()), BigInt(number));
    assert.equal(decodeCbor(hex('c2 43 010000')), 65_536n);
    assert.equal(decodeCbor(hex('d9d9f7 d9d9f7 61 61')), 'a');
  });

  test('what no request has is refused with its place', () => {
    const cases: readonly (readonly [string, RegExp])[] = [
      ['', /end inside a value/],
      ['9f 01 ff', /indefinite lengths/],
      ['5f 41 00 ff', /indefinite lengths/],
      ['bf ff', /indefinite lengths/],
      ['1c', /indefinite lengths/],
      ['20', /negative numbers/],
      ['f5', /floats and simple values/],
      ['fb 3ff0000000000000', /floats and simple values/],
      ['a1 01 02', /at byte 2 a key of a map is not text/],
      ['a2 61 61 01 61 61 02', /"a" is there twice/],
      ['c0 61 61', /the tag 0 is not taken/],
      ['c2 61 61', /not made of bytes/],
      [`c2 58 21 ${'01'.repeat(33)}`, /33 of at most 32 bytes/],
      ['5b ffffffffffffffff', /18446744073709551615 bytes are announced, and 0 are there/],
      ['9b 00000001ffffffff', /values are announced, and 0 bytes are there/],
      ['bb ffffffffffffffff', /values are announced/],
      ['61 ff', /not UTF-8/],
      ['01 01', /1 bytes follow the value/],
      [`7a 00040001 ${'61'.repeat(262_145)}`, /the texts have more than 262144 bytes/],
      [`83 ${`79 ffff ${'61'.repeat(65_535)}`.repeat(2)} 7a 00020003 ${'61'.repeat(131_075)}`, /the texts have more/],
      ['81'.repeat(17) + '01', /nested too deeply/],
      ['d9d9f7'.repeat(17) + '01', /nested too deeply/],
    ];
    for (const [text, reason] of cases) assert.match(refusal(hex(text)), reason, text);
    assert.match(refusal(Buffer.concat([hex('9a 000186a0'), Buffer.alloc(100_000)])), /too many values/);
    const keys = Array.from(
      { length: 1001 },
      (_, key) =>
        `64 ${Buffer.from(String(key + 1000))
          .toString('hex')
          .slice(0, 8)} 00`,
    );
    assert.match(refusal(hex(`b9 03e9 ${keys.join('')}`)), /the maps have more than 1000 keys/);
    const halves = [keys.slice(0, 500), keys.slice(500)].map(
      (each) => `b9 0${each.length.toString(16)} ${each.join('')}`,
    );
    assert.match(refusal(hex(`82 ${halves.join('')}`)), /the maps have more than 1000 keys/);
    assert.equal((decodeCbor(hex(`${'81'.repeat(16)}01`)) as readonly unknown[]).length, 1);
  });

  test('random and damaged bytes are read or refused, and nothing else happens', () => {
    const random = seeded(7);
    const whole = envelope();
    let taken = 0;
    for (let round = 0; round < 200_000; round++) {
      const bytes =
        round % 2 === 0
          ? Buffer.from(whole)
          : Buffer.from(Array.from({ length: random.below(40) }, () => random.below(256)));
      for (let changes = random.below(4); changes > 0 && bytes.length > 0; changes--)
        bytes[random.below(bytes.length)] = random.below(256);
      try {
        decodeCbor(bytes.subarray(0, random.oneIn(10) ? random.below(bytes.length + 1) : bytes.length));
        taken++;
      } catch (error) {
        assert.ok(
          error instanceof ServerError && error.code === 'cbor-bad',
          `${bytes.toString('hex')}: ${String(error)}`,
        );
      }
    }
    assert.ok(taken > 10_000);
  });
});
