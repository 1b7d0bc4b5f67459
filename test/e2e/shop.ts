/** A shop with messages of every kind, and actors that it calls: for what replays messages of the past. */
import assert from 'node:assert/strict';
import type { Host } from './semantics/host.ts';

export const PEER = `persistent actor {
  var told = 0;
  public func tell(n : Nat) : async Nat { told += 1; assert n != 13; n * 2 };
  public query func count() : async Nat { told };
};`;
export const SHOP = `
  import Time "mo:core/Time";
  import Error "mo:core/Error";
  import Timer "mo:core/Timer";
  persistent actor Self {
    type Item = { #book : Nat; #voucher : Nat };
    type Peer = actor { tell : Nat -> async Nat };
    var items : [Item] = [];
    var total = 0;
    var seen : Int = 0;
    func priceOf(item : Item) : Nat { switch item { case (#book n) n; case (#voucher n) { n } } };
    public func add(item : Item) : async Nat { items := [item]; total += 1; total };
    public func price() : async Nat { priceOf(items[0]) };
    public func tell(p : Principal, n : Nat) : async Nat {
      try { total += await (actor (debug_show p) : Peer).tell(n) } catch e { return 1000 + Error.message(e).size() };
      total;
    };
    public func twice(p : Principal) : async Nat {
      let peer = actor (debug_show p) : Peer;
      let (one, two) = (peer.tell(1), peer.tell(2));
      (await two) * 100 + (await one);
    };
    public func later() : async () {
      ignore Timer.setTimer<system>(#milliseconds 20, func() : async () { seen := Time.now(); total += 7 });
    };
    public shared ({ caller }) func now() : async (Int, Principal) { seen := Time.now(); (seen, caller) };
    public func fail() : async () { assert total > 1_000_000 };
    public func hold(p : Principal) : async Nat { await (actor (debug_show p) : actor { hold : () -> async Nat }).hold() };
    public query func sum() : async Nat { total };
    public query func last() : async Int { seen };
  };`;
export const HOLDER = `persistent actor Self {
  var held = true;
  func step() : async () {};
  public func hold() : async Nat { while (held) { await step() }; 5 };
  public func release() : async () { held := false };
};`;
export const FLAGS = ['--timeline', '3600', '--heartbeat-ms', '0', '--timer-ms', '20'];

export async function call(host: Host, method: string, args: unknown): Promise<string> {
  return (await host.server.post(`/call-json/shop/${method}`, JSON.stringify(args))).body;
}

/** Resolves when the state behind the newest message is kept: a timeline begins while its first messages execute. */
export async function begun(host: Host): Promise<void> {
  await host.until(async () => {
    await call(host, 'add', [{ book: '1' }]);
    const { status, body } = await host.server.get('/x/time/state/shop');
    assert.equal(status, 200, body);
  });
}

/** Messages of every kind: replies, traps, callbacks in another order, rejects, a timer. */
export async function traffic(host: Host, principal: string): Promise<void> {
  await call(host, 'add', [{ book: '3' }]);
  await call(host, 'price', []);
  await call(host, 'tell', [principal, '5']);
  await call(host, 'tell', [principal, '13']);
  await call(host, 'twice', [principal]);
  await call(host, 'now', []);
  await call(host, 'fail', []);
  const sum = async (): Promise<number> =>
    Number((JSON.parse((await host.server.post('/query-json/shop/sum', '[]')).body) as [string])[0]);
  const earlier = await sum();
  await call(host, 'later', []);
  await host.until(async () => assert.equal(await sum(), earlier + 7));
  // Motoko's timers end with an upgrade: a span that begins before them is without the later ones.
  await call(host, 'now', []);
  await call(host, 'add', [{ voucher: '9' }]);
  await call(host, 'price', []);
}
