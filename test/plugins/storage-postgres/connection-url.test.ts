/** Settings of TLS that reach the driver, which ignores unknown ones. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkedUrl, withSslMode } from '../../../plugins/storage-postgres/connection-url.ts';

const URL = 'postgres://me@db/x';

test('a mode of TLS goes into a URL that has none, and is checked there', () => {
  assert.equal(checkedUrl(withSslMode(URL, 'verify-full')), `${URL}?sslmode=verify-full`);
  assert.equal(checkedUrl(withSslMode(`${URL}?user=you`, 'require')), `${URL}?user=you&sslmode=require`);
  for (const mode of ['allow', 'verify_full', 'a&ssl=0'])
    assert.throws(
      () => checkedUrl(withSslMode(URL, mode)),
      /has a sslmode, of its own or of PGSSLMODE, that is none of/,
    );
});

test('a URL that says something of TLS, or is none, stays as it is', () => {
  for (const url of [`${URL}?sslmode=disable`, `${URL}?ssl=0`, 'no url'])
    assert.equal(withSslMode(url, 'verify-full'), url);
  for (const mode of [undefined, '']) assert.equal(withSslMode(URL, mode), URL);
});

test('values of ssl at which the driver would throw later are refused', () => {
  for (const value of ['true', '1', '0', 'no-verify'])
    assert.equal(checkedUrl(`${URL}?ssl=${value}`), `${URL}?ssl=${value}`);
  for (const value of ['false', 'require', ''])
    assert.throws(() => checkedUrl(`${URL}?ssl=${value}`), /a parameter ssl that is/);
});
