/** Candid text of messages with the names of an interface: of fields and variants alone, not in what a text says. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { codec } from '../codec/support.ts';
import { namedPreviews } from '../../../subsystems/http/named-previews.ts';

const DID = `type Payment = variant { card : text; voucher : nat; none; "größe in cm" : nat };
service : { order : (record { pieces : nat; payment : Payment; 7 : nat }) -> () }`;
const { previewText } = namedPreviews(codec, { candid: codec.parseInterface(DID) });

const shown = (text: string, charactersMax = 1000): string | undefined =>
  previewText(codec.encodeText(text), charactersMax, false);

test('fields and variants have their names, numbers and texts stay', () => {
  // The text of a message is read, and names its labels by hashes.
  assert.match(codec.previewText(codec.encodeText('(record { pieces = 2 : nat })'), 100) ?? '', /\d{5,} = 2 : nat/);
  assert.equal(
    shown('(record { 7 = 1 : nat; pieces = 2 : nat; payment = variant { card = "1102716368 = 5" } })'),
    '(record { 7 = 1 : nat; pieces = 2 : nat; payment = variant { card = "1102716368 = 5" } })',
  );
  assert.equal(shown('(variant { none }, 1102716368 : nat)'), '(variant { none }, 1102716368 : nat)');
  assert.equal(shown('(variant { "größe in cm" = 3 : nat })'), '(variant { "größe in cm" = 3 : nat })');
  assert.match(shown('(record { stranger = 1 : nat })') ?? '', /^\(record \{ \d+ = 1 : nat \}\)$/);
});

test('a name that begins a value, or has a quote, stands in quotes as Candid has them', () => {
  const did =
    'service : { f : (record { "principal" : nat; "opt" : nat; type_ : nat }, variant { "null"; "a\u{7f}b" }) -> () }';
  const named = namedPreviews(codec, { candid: codec.parseInterface(did) });
  const text = '(record { "opt" = 1; "principal" = 3; type_ = 2 }, variant { "null" })';
  const message = codec.encodeText(text);
  const preview = named.previewText(message, 1000, false) ?? '';
  assert.equal(preview, text);
  assert.deepEqual(codec.encodeText(preview), message);
});

test('a text that is cut has its names as far as it goes, and what is no Candid is undefined', () => {
  const cut = shown('(record { pieces = 2 : nat; payment = variant { card = "long" } })', 40);
  assert.match(cut ?? '', /^\(record \{ .*…$/);
  assert.equal(previewText(Uint8Array.of(1, 2, 3), 100, false), undefined);
  const unnamed = namedPreviews(codec, { candid: undefined });
  assert.equal(unnamed, codec);
});
