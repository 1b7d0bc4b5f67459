/** Clients of the Internet Computer, as they come from npm. */
import * as candid3 from '@dfinity/candid';
import * as principal3 from '@dfinity/principal';
import * as agent3 from 'dfinity-agent-3';
import * as agent5 from 'icp-core-5/agent';
import * as candid5 from 'icp-core-5/candid';
import * as identity5 from 'icp-core-5/identity';
import * as secp5 from 'icp-core-5/identity/secp256k1';
import * as principal5 from 'icp-core-5/principal';
import * as agent6 from 'icp-core-6/agent';
import * as candid6 from 'icp-core-6/candid';
import * as identity6 from 'icp-core-6/identity';
import * as secp6 from 'icp-core-6/identity/secp256k1';
import * as principal6 from 'icp-core-6/principal';

export interface Core {
  readonly agent: typeof agent6;
  readonly candid: typeof candid6;
  readonly identity: typeof identity6;
  readonly secp: typeof secp6;
  readonly principal: typeof principal6;
}

/** The name of the package; by a variable, because its types are not the others'. */
const AGENT_2 = 'dfinity-agent-2';
/** Undefined where `npm ci` was not run since there is this client: a test of clients says so. */
const agent2 = (await import(AGENT_2).catch(() => undefined)) as Core | undefined;

/** Clients of before, whose identities are a package of their own; those of today fit. */
const BEFORE: Core = {
  agent: agent3,
  candid: candid3,
  identity: identity6,
  secp: secp6,
  principal: principal3,
} as unknown as Core;

export const CORES: Readonly<Record<string, Core>> = {
  '@icp-sdk/core 6': { agent: agent6, candid: candid6, identity: identity6, secp: secp6, principal: principal6 },
  // The types of the two differ in private members.
  '@icp-sdk/core 5': {
    agent: agent5,
    candid: candid5,
    identity: identity5,
    secp: secp5,
    principal: principal5,
  } as unknown as Core,
  '@dfinity/agent 3': BEFORE,
  ...(agent2 !== undefined && { '@dfinity/agent 2': agent2 }),
};

/** Names of reject codes, by code. */
const REJECT_CODES = ['', 'SysFatal', 'SysTransient', 'DestinationInvalid', 'CanisterReject', 'CanisterError'];

/** Returns a pattern for the error of a rejection: clients show its parts in orders and quotes of their own. */
export function rejection(code: number, errorCode: string, message = ''): RegExp {
  const certified = `(?=[^]*Reject code"?: "?${code})(?=[^]*${errorCode})`;
  // Version 2 shows the code of a query by its name.
  const query = `(?=[^]*"Code": "${REJECT_CODES[code]}")`;
  return new RegExp(`^(?:${certified}|${query})[^]*${message}`);
}
