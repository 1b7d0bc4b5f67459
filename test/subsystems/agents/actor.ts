import assert from 'node:assert/strict';
import { type InProcessServer, startInProcess } from '../../support/in-process-server.ts';
import { compileMotoko } from '../../support/motoko.ts';
import type { TestOwner } from '../../support/server.ts';

/** Id of the first actor of a host. */
export const FIRST_ID: Uint8Array = Buffer.from('80000000001000010101', 'hex');
export const FIRST_TEXT = 'bkyz2-fmaaa-aaaaa-qaaaq-cai';

const SOURCE = `
import Error "mo:core/Error";
import Runtime "mo:core/Runtime";
persistent actor It {
  var count = 0;
  public func inc() : async Nat { count += 1; count };
  public query func get() : async Nat { count };
  public shared ({ caller }) func who() : async Principal { caller };
  public func fail() : async () { throw Error.reject("as it was asked to") };
  public func boom() : async () { Runtime.trap("boom") };
  public query func boomQuery() : async () { Runtime.trap("boom") };
  public composite query func both() : async Nat { await get() };
  func deep() : async () {};
  public func closed() : async () { await deep() };
  system func inspect({
    msg : {
      #closed : () -> ();
      #inc : () -> ();
      #get : () -> ();
      #who : () -> ();
      #fail : () -> ();
      #boom : () -> ();
      #boomQuery : () -> ();
      #both : () -> ();
    };
  }) : Bool {
    switch (msg) { case (#closed _) false; case _ true };
  };
}`;

export async function compiledActor(): Promise<Uint8Array> {
  return (await compileMotoko(SOURCE)).wasm;
}

/** Starts a server with that actor, which serves the agent interface without being told to. */
export async function startWithActor(
  owner: TestOwner,
  args: readonly string[] = [],
  headers: Readonly<Record<string, string>> = {},
): Promise<InProcessServer> {
  const server = await startInProcess(owner, { args });
  const installed = await server.post('/install/it', await compiledActor(), headers);
  assert.equal(installed.status, 200, installed.body);
  return server;
}
