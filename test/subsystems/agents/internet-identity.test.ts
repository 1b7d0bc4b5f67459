/**
 * Logins with a canister that signs: one of the real Internet Identity, recorded (login.json is the vector of that
 * canister's own tests, and expired in February 2024), and one of an actor of this host, by an unmodified agent.
 */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Actor, HttpAgent, type Signature } from 'icp-core-6/agent';
import { IDL } from 'icp-core-6/candid';
import { Delegation, DelegationChain, DelegationIdentity, Ed25519KeyIdentity } from 'icp-core-6/identity';
import { CanisterSignatures, canisterKeyOf } from '../../../subsystems/agents/canister-signatures.ts';
import { IC_ROOT_KEY } from '../../../subsystems/agents/ic-root-key.ts';
import {
  BlsVerifier,
  type CborMap,
  type CborValue,
  decodeCbor,
  hashOfMap,
  principalOfKey,
  separated,
  Witness,
} from '../../../subsystems/certification/index.ts';
import { principalToText } from '../../../subsystems/ic/index.ts';
import { compileMotoko, compileMotokoFile } from '../../support/motoko.ts';
import { startInProcess } from '../../support/in-process-server.ts';
import { FIRST_ID, FIRST_TEXT } from './actor.ts';
import { cborOf, derOfCanister } from './raw-agent.ts';

interface Recorded {
  readonly canister: string;
  readonly principal: string;
  /** Hex, as all below: DER of the canister's key, and what it has signed. */
  readonly publicKey: string;
  readonly pubkey: string;
  readonly expiration: string;
  readonly signature: string;
}

const fixture = (path: string): URL => new URL(`../../fixtures/${path}`, import.meta.url);
const PROVIDER = fileURLToPath(fixture('certifying/Provider.mo'));
const WHO = `persistent actor {
  public shared query ({ caller }) func who() : async Principal { caller };
  public shared ({ caller }) func whoCalls() : async Principal { caller };
}`;
const bytes = (hex: string): Buffer => Buffer.from(hex, 'hex');
const sha256 = (data: Uint8Array): Buffer => hash('sha256', data, 'buffer');
const labelOf = (label: string | Uint8Array): Uint8Array => (typeof label === 'string' ? Buffer.from(label) : label);
const mapIn = (cbor: CborValue | undefined): CborMap =>
  decodeCbor(cbor as Uint8Array, { itemsMax: 4000, depthMax: 128 }) as CborMap;

/** Returns the bytes that the signer of a delegation signs. */
function delegationMessage(pubkey: Uint8Array, expiration: bigint): Buffer {
  const delegation = new Map<string, CborValue>([
    ['pubkey', pubkey],
    ['expiration', expiration],
  ]);
  return Buffer.concat([separated('ic-request-auth-delegation'), hashOfMap(delegation)]);
}

test('a recorded login is of the Internet Computer in every part, and is refused: subnets told no type then', async (t) => {
  const recorded = JSON.parse(await readFile(fixture('internet-identity/login.json'), 'utf8')) as Recorded;
  const der = bytes(recorded.publicKey);
  const key = canisterKeyOf(der) ?? assert.fail('this is the key of a canister');
  const { canisterId, seed } = key;
  assert.equal(principalToText(canisterId), recorded.canister);
  assert.equal(principalToText(principalOfKey(der)), recorded.principal);
  const expiration = BigInt(`0x${recorded.expiration}`);
  const message = delegationMessage(bytes(recorded.pubkey), expiration);
  const signature = bytes(recorded.signature);

  const parts = mapIn(signature);
  const tree = new Witness(parts.get('tree'));
  assert.equal(tree.valueAt(['sig', sha256(seed), sha256(message)].map(labelOf))?.length, 0);
  const ofOther = delegationMessage(bytes(recorded.pubkey), expiration + 1n);
  assert.equal(tree.valueAt(['sig', sha256(seed), sha256(ofOther)].map(labelOf)), undefined);
  const certificate = mapIn(parts.get('certificate'));
  const state = new Witness(certificate.get('tree'));
  const data = state.valueAt(['canister', canisterId, 'certified_data'].map(labelOf));
  assert.deepEqual(data && Buffer.from(data), Buffer.from(tree.rootHash));
  const delegation = certificate.get('delegation') as CborMap;
  const above = mapIn(delegation.get('certificate'));
  const subnets = new Witness(above.get('tree'));
  const told = (name: string): Uint8Array | undefined =>
    subnets.valueAt(['subnet', delegation.get('subnet_id') as Uint8Array, name].map(labelOf));
  const verifier = new BlsVerifier();
  t.after(() => verifier.close());
  const isSigned = (by: Uint8Array, { rootHash }: Witness, of: CborMap): Promise<boolean> =>
    verifier.verifies(by, Buffer.concat([separated('ic-state-root'), rootHash]), of.get('signature') as Uint8Array);
  const subnetKey = told('public_key') ?? assert.fail('the root names the key of the subnet');
  assert.deepEqual(
    await Promise.all([isSigned(IC_ROOT_KEY, subnets, above), isSigned(subnetKey, state, certificate)]),
    [true, true],
  );
  assert.equal(await isSigned(IC_ROOT_KEY, state, certificate), false);

  assert.equal(told('type'), undefined);
  const signatures = new CanisterSignatures({ own: subnetKey, ic: IC_ROOT_KEY }, verifier);
  assert.equal(await signatures.verifies(key, message, signature), false);
});

test('an actor of this host signs for its user, who is then its principal at /api until the login ends', async (t) => {
  const server = await startInProcess(t);
  const { wasm } = await compileMotokoFile(PROVIDER);
  assert.equal((await server.post('/install/provider?certificate=signed', wasm)).status, 200);
  assert.equal((await server.post('/install/it', (await compileMotoko(WHO)).wasm)).status, 200);
  const actors = JSON.parse((await server.get('/inspect')).body) as readonly { readonly principal: string }[];
  const canisterId = actors[1]?.principal ?? '';
  const [device, session] = [Ed25519KeyIdentity.generate(), Ed25519KeyIdentity.generate()];
  const options = { host: server.origin, shouldFetchRootKey: true };
  const BLOB = IDL.Vec(IDL.Nat8);
  const provider = Actor.createActor<{
    sign(message: Uint8Array): Promise<void>;
    signature(): Promise<{ readonly certificate: Uint8Array; readonly tree: Uint8Array }>;
  }>(
    () =>
      IDL.Service({
        sign: IDL.Func([BLOB], [], []),
        signature: IDL.Func([], [IDL.Record({ certificate: BLOB, tree: BLOB })], ['query']),
      }),
    { agent: await HttpAgent.create({ ...options, identity: device }), canisterId: FIRST_TEXT },
  );
  const key = derOfCanister(FIRST_ID, device.getPrincipal().toUint8Array());
  const loginUntil = async (expiration: bigint): Promise<DelegationIdentity> => {
    const pubkey = session.getPublicKey().toDer();
    await provider.sign(new Uint8Array(delegationMessage(pubkey, expiration)));
    const { certificate, tree } = await provider.signature();
    const signature = new Map<string, CborValue>([
      ['certificate', certificate],
      ['tree', decodeCbor(tree)],
    ]);
    const signed = {
      delegation: new Delegation(pubkey, expiration),
      signature: new Uint8Array(cborOf(signature)) as Signature,
    };
    const chain = DelegationChain.fromDelegations([signed], new Uint8Array(key));
    return DelegationIdentity.fromDelegation(session, chain);
  };
  const who = async (identity: DelegationIdentity): Promise<readonly string[]> => {
    const agent = await HttpAgent.create({ ...options, identity, retryTimes: 0 });
    const method = (kind: 'query'[]): IDL.FuncClass => IDL.Func([], [IDL.Principal], kind);
    const it = Actor.createActor<Record<'who' | 'whoCalls', () => Promise<{ toText(): string }>>>(
      () => IDL.Service({ who: method(['query']), whoCalls: method([]) }),
      { agent, canisterId },
    );
    return [(await it.who()).toText(), (await it.whoCalls()).toText()];
  };
  const user = principalToText(principalOfKey(key));
  const soon = BigInt(Date.now() + 600_000) * 1_000_000n;
  assert.deepEqual(await who(await loginUntil(soon)), [user, user]);
  await assert.rejects(who(await loginUntil(BigInt(Date.now() - 1000) * 1_000_000n)), /403[^]*expired/);
});
