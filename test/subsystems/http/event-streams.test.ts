import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { eventFrame } from '../../../subsystems/http/event-streams.ts';

suite('event frames', () => {
  test('no text forges a field: each of the three line ends begins a data line', () => {
    const data = 'a\r\nevent: x\rid: 7\n\ndata: b';
    assert.equal(
      eventFrame({ id: 3, event: 'debug', data }).toString(),
      'id: 3\nevent: debug\ndata: a\ndata: event: x\ndata: id: 7\ndata: \ndata: data: b\n\n',
    );
  });

  test('without id and name there are data lines alone', () => {
    assert.equal(eventFrame({ data: '' }).toString(), 'data: \n\n');
  });
});
