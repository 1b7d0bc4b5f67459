import assert from 'node:assert/strict';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import { principalToText } from '../../../subsystems/ic/index.ts';
import { MANAGEMENT_DID } from '../../../subsystems/management/interface-did.ts';
import { NoService } from '../../../subsystems/storage/no-service.ts';
import { ManagementCanister, type ManagementOptions } from '../../../subsystems/management/management-canister.ts';
import type { ManagementRequest } from '../../../subsystems/management/index.ts';
import type { RecordStore } from '../../../subsystems/management/records/record-store.ts';
import type { Outcalls } from '../../../subsystems/outcalls/index.ts';
import { NoOutcalls } from '../../../subsystems/outcalls/no-outcalls.ts';
import { NoStorage } from '../../../subsystems/storage/no-storage.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { RecordingLogger, SeededRandom } from '../../support/kernel.ts';
import { type FakeCanister, FakeHost } from './fake-host.ts';

export const codec = createCodec();
export const { methods } = codec.parseInterface(MANAGEMENT_DID);

/** A user who controls what the tests create, and one who controls nothing. */
export const OWNER = Uint8Array.from({ length: 29 }, (_, index) => index);
export const STRANGER = Uint8Array.of(4);

export const text = (principal: Uint8Array): string => principalToText(principal);
export const base64 = (bytes: Uint8Array | string): string => Buffer.from(bytes).toString('base64');
export const bytesOf = (blob: string): Uint8Array => new Uint8Array(Buffer.from(blob, 'base64'));

type Options = Partial<Omit<ManagementRequest, 'method' | 'argument'>>;
interface Rejected {
  readonly code: number;
  readonly message: string;
}

interface BenchParts {
  /** Storage for the records of changes. */
  readonly storage?: RecordStore;
  /** A host that has canisters already. */
  readonly host?: FakeHost;
  readonly random?: SeededRandom;
  readonly outcalls?: Outcalls;
}

/** A management canister with a host, called in JSON. */
export class ManagementBench {
  readonly host: FakeHost;
  readonly clock = new FakeClock();
  readonly log = new RecordingLogger();
  readonly management: ManagementCanister;

  constructor(
    options: ManagementOptions = {},
    {
      storage = new NoStorage(),
      host = new FakeHost(),
      random = new SeededRandom(5),
      outcalls = new NoOutcalls(),
    }: BenchParts = {},
  ) {
    this.host = host;
    this.management = new ManagementCanister(
      { host, codec, clock: this.clock, random, log: this.log, storage, service: new NoService(), outcalls },
      { seed: Buffer.alloc(32, 1), hostVersion: '1.2.3', ...options },
    );
    this.management.open();
  }

  /** Makes an empty canister that OWNER controls. */
  canister(): FakeCanister {
    return this.host.create({ id: undefined, balance: 100n, settings: { controllers: [OWNER] } });
  }

  async raw(method: string, argument: Uint8Array, options: Options = {}) {
    const request = { sender: OWNER, senderIsCanister: false, cycles: 0n, isQuery: false, ...options };
    const answer = await this.management.call({ ...request, method, argument });
    assert.ok(answer.refunded >= 0n && answer.refunded <= request.cycles);
    return answer;
  }

  /** Returns the result, and the cycles that came back. */
  async paid(method: string, argument: unknown, options: Options = {}) {
    const types = methods.get(method);
    assert.ok(types, method);
    const json = JSON.stringify(argument === undefined ? [] : [argument]);
    const { response, refunded } = await this.raw(
      method,
      types.args.encode(Buffer.from(json), { lossless: false }),
      options,
    );
    if (response.kind === 'reject') return { response, refunded, result: undefined };
    const decoded = types.results.decode(response.data, { lossless: false });
    const [result] = JSON.parse(Buffer.from(decoded).toString()) as unknown[];
    return { response, refunded, result };
  }

  /** Makes a call that has to succeed; returns its result, whose type the test names. */
  async ok<T = unknown>(method: string, argument: unknown, options: Options = {}): Promise<T> {
    const { response, result } = await this.paid(method, argument, options);
    assert.equal(response.kind, 'reply', response.kind === 'reject' ? response.message : '');
    return result as T;
  }

  /** Returns the reject of a call that has to be refused, with everything refunded. */
  async refused(method: string, argument: unknown, options: Options = {}): Promise<Rejected> {
    const { response, refunded } = await this.paid(method, argument, { cycles: 77n, ...options });
    assert.ok(response.kind === 'reject', `${method} was not refused`);
    assert.equal(refunded, options.cycles ?? 77n);
    assert.deepEqual(this.log.lines, []);
    return { code: response.code, message: response.message };
  }

  /** Returns options for a call by this canister. */
  from(canister: FakeCanister): Options {
    return { sender: canister.id, senderIsCanister: true };
  }
}
