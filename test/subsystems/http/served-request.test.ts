import assert from 'node:assert/strict';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { ServedRequest } from '../../../subsystems/http/served-request.ts';
import fc, { cases } from '../../support/properties.ts';

/** Returns the headers of a request with these header lines, as the parser hands them over. */
function headersOf(
  Request: new (socket: Socket) => IncomingMessage,
  lines: readonly (readonly [string, string])[],
): unknown {
  const request = new Request(new Socket());
  request.rawHeaders = lines.flat();
  Reflect.apply(Reflect.get(request, '_addHeaderLines') as () => void, request, [request.rawHeaders, 2 * lines.length]);
  return { ...request.headers };
}

test('headers are those that node:http makes, however often and in whatever letters they come', () => {
  const name = fc.constantFrom(
    'x-caller',
    'X-Caller',
    'X-CALLER',
    'idempotency-key',
    'Idempotency-Key',
    'IDEMPOTENCY-KEY',
    'Idempotency-key',
    'Host',
    'authorization',
    'Authorization',
    'cookie',
    'x-calles',
    'x-forwarded-for',
    '__proto__',
    'Set-Cookie',
  );
  const lines = fc.array(fc.tuple(name, fc.string({ maxLength: 3 })), { maxLength: 8 });
  fc.assert(
    fc.property(lines, (all) => {
      assert.deepEqual(headersOf(ServedRequest, all), headersOf(IncomingMessage, all));
    }),
    { numRuns: cases(500) },
  );
});

test('node:http asks the request itself to add each header', () => {
  const names: string[] = [];
  class Listening extends ServedRequest {
    override _addHeaderLine(...line: Parameters<ServedRequest['_addHeaderLine']>): void {
      names.push(line[0]);
      super._addHeaderLine(...line);
    }
  }
  headersOf(Listening, [
    ['Host', 'a'],
    ['Idempotency-Key', 'k'],
  ]);
  assert.deepEqual(names, ['Host', 'Idempotency-Key']);
});
