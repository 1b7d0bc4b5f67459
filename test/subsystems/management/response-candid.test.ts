import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MANAGEMENT_DID } from '../../../subsystems/management/interface-did.ts';
import {
  candidOfResponse,
  candidOfTransformArgument,
} from '../../../subsystems/management/outcalls/response-candid.ts';
import { TRANSFORM_DID } from '../../../subsystems/management/outcalls/transform-did.ts';
import type { OutcallResponse } from '../../../subsystems/outcalls/index.ts';
import { codec } from './management-bench.ts';

const RESPONSES: readonly OutcallResponse[] = [
  { status: 200, headers: [], body: new Uint8Array(0) },
  { status: 999, headers: [{ name: '', value: '' }], body: Uint8Array.of(0, 255) },
  {
    status: 404,
    headers: Array.from({ length: 200 }, (_, at) => ({ name: `x-${at}`, value: `${'ä€😀'.repeat(at)}\0` })),
    body: Buffer.alloc(20_000, 7),
  },
  // Half of a pair is no character: it is replaced, as in all text.
  { status: 500, headers: [{ name: 'x', value: '\ud800' }], body: Buffer.alloc(2_000_000, 'b') },
];

const asJson = ({ status, headers, body }: OutcallResponse) => ({
  status,
  headers: headers.map(({ name, value }) => ({ name, value: value.toWellFormed() })),
  body: Buffer.from(body).toString('base64'),
});

test('a response is written as the codec reads it', async () => {
  const types = codec.parseInterface(MANAGEMENT_DID).methods.get('http_request');
  assert.ok(types);
  for (const response of RESPONSES) {
    const read = await types.results.decodeAnySize(candidOfResponse(response), { lossless: false });
    assert.deepEqual(JSON.parse(Buffer.from(read).toString()), [asJson(response)]);
  }
});

test('so is what a transform gets', async () => {
  const types = codec.parseInterface(TRANSFORM_DID).methods.get('transform');
  assert.ok(types);
  for (const response of RESPONSES) {
    const context = Buffer.from('context'.repeat(response.status));
    const argument = candidOfTransformArgument({ response, context });
    const read = await types.args.decodeAnySize(argument, { lossless: false });
    const expected = { response: asJson(response), context: context.toString('base64') };
    assert.deepEqual(JSON.parse(Buffer.from(read).toString()), [expected]);
  }
});
