import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isPrivateAddress } from '../../../subsystems/outcalls/private-addresses.ts';

test('public addresses are public', () => {
  for (const address of [
    '1.1.1.1',
    '8.8.8.8',
    '172.15.255.255',
    '172.32.0.0',
    '100.63.255.255',
    '100.128.0.0',
    '192.167.0.1',
    '223.255.255.255',
    '2606:4700:4700::1111',
    '2001:4860:4860::8888',
    '::ffff:8.8.8.8',
    '64:ff9b::8.8.8.8',
  ])
    assert.equal(isPrivateAddress(address), false, address);
});

test('everything else is private: this machine, its networks, metadata of clouds, reserved, no address at all', () => {
  for (const address of [
    '0.0.0.0',
    '0.1.2.3',
    '10.255.0.1',
    '100.100.100.200',
    '127.0.0.1',
    '127.255.255.254',
    '168.63.129.16',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
    '192.0.0.192',
    '192.168.1.1',
    '198.18.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::127.0.0.1',
    '::ffff:10.0.0.1',
    '::ffff:a00:1',
    '64:ff9b::a9fe:a9fe',
    '64:ff9b:1::1',
    'fc00::1',
    'fd00:ec2::254',
    'fe80::1',
    'fe80::1%eth0',
    'ff02::1',
    '2001::1',
    '2001:db8::1',
    '2002:7f00:1::',
    '3fff::1',
    '100::1',
    '',
    'localhost',
    '1.2.3',
  ])
    assert.equal(isPrivateAddress(address), true, address);
});
