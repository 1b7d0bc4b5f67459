import assert from 'node:assert/strict';
import { test } from 'node:test';
import { whereToLook } from '../../config/where-to-look.ts';

const COUNTER = {
  name: 'counter',
  hasSite: false,
  candid: 'service : { boom: () -> (); get: () -> (nat) query; inc: () -> (nat); }',
};
const SITE = { name: 'website', hasSite: true, candid: undefined };
const PLACE = {
  origin: 'http://127.0.0.1:7000',
  inspector: '/',
  hasSiteHosts: true,
  hasSites: true,
  hasToken: false,
  actors: [SITE, COUNTER],
};

test('a person is shown the inspector, a website and a call that answers something', () => {
  assert.deepEqual(whereToLook(PLACE), [
    'inspector  http://127.0.0.1:7000/',
    'website    http://website.localhost:7000/',
    "a call     curl -X POST -d '[]' http://127.0.0.1:7000/call-json/counter/inc",
  ]);
});

test('what is turned off or missing is not shown, and a token is asked for by its variable', () => {
  assert.deepEqual(whereToLook({ ...PLACE, inspector: undefined, hasSites: false, hasToken: true }), [
    `a call     curl -H "Authorization: Bearer $SVC_TOKEN" -X POST -d '[]' http://127.0.0.1:7000/call-json/counter/inc`,
  ]);
  assert.deepEqual(whereToLook({ ...PLACE, inspector: '/inspector', actors: [] }), [
    'inspector  http://127.0.0.1:7000/inspector',
  ]);
});

test('a website without a host name of its own is shown by its path', () => {
  const at = (name: string, hasSiteHosts: boolean) =>
    whereToLook({ ...PLACE, inspector: undefined, hasSiteHosts, actors: [{ ...SITE, name }] })[0];
  assert.equal(at('website', false), 'website    http://127.0.0.1:7000/site/website/');
  assert.equal(at('my_site', true), 'website    http://127.0.0.1:7000/site/my_site/');
  assert.equal(at('My-site', true), 'website    http://My-site.localhost:7000/');
});

test('methods that take arguments, ask only or answer nothing are no first call', () => {
  for (const candid of [
    'service : { put: (nat) -> (nat) }',
    'service : { get: () -> (nat) query }',
    'service : { get: () -> (nat) composite_query; }',
    'service : { boom: () -> (); fire: () -> () oneway }',
  ])
    assert.deepEqual(whereToLook({ ...PLACE, inspector: undefined, actors: [{ ...COUNTER, candid }] }), [], candid);
});
