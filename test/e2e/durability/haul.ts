/** Clients that send loads of all sizes and durations (actors/Hauler.mo), and the check of the loads' results. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { IDL } from '@dfinity/candid';
import { Principal } from '@dfinity/principal';
import type { Answer } from '../../support/http-client.ts';
import { actorSizesOf, DURATION_NAMES, durationsOf, SIZE_NAMES, sizesOf, Tally } from '../../support/payload-sizes.ts';
import type { Seeded } from '../../support/seeded.ts';
import type { Actor, Host } from '../semantics/host.ts';
import { Client, type Request, type RunOptions } from './client.ts';

/** Flags of the server with which an endless load ends in about a second. */
export const HAUL_FLAGS = ['--instruction-limit', '600000000'] as const;

const BLOB = IDL.Vec(IDL.Nat8);
const LOAD = IDL.Record({
  client: IDL.Nat,
  number: IDL.Nat,
  instructions: IDL.Nat64,
  replyBytes: IDL.Nat,
  lineBytes: IDL.Nat,
  end: IDL.Variant({ reply: IDL.Null, reject: IDL.Null, trap: IDL.Null, never: IDL.Null }),
});

type End = 'reply' | 'reject' | 'trap' | 'never';
/** Draws how a load ends: mostly in a reply. */
function endOf(random: Seeded): End {
  if (random.oneIn(20)) return 'never';
  if (random.oneIn(8)) return 'trap';
  return random.oneIn(4) ? 'reject' : 'reply';
}

/** Answer of `look`. */
interface Report {
  readonly begun: number;
  readonly ended: number;
  readonly taken: readonly number[];
  readonly asked: readonly number[];
  readonly relayed: readonly number[];
  readonly delivered: readonly number[];
  readonly versions: number;
}

interface Load {
  readonly client: number;
  readonly number: number;
  readonly instructions: number;
  readonly replyBytes: number;
  readonly lineBytes: number;
  readonly end: End;
  readonly data: Uint8Array;
  /** Special properties of the load, for the tally. */
  readonly classes: readonly string[];
  readonly duration: string;
  readonly isJson: boolean;
}

/** Returns true if the answer is a refusal by an actor that is stopped for an upgrade in the middle of a message. */
function isRefusedForUpgrade({ status, text }: Answer): boolean {
  return status === 400 && /Canister \S+ is stopp(ing|ed)"/.test(text);
}

/** Draws the loads of one client. */
class Loads {
  readonly #client: number;
  readonly #random: Seeded;
  readonly #arguments: ReturnType<typeof sizesOf>;
  readonly #replies: ReturnType<typeof sizesOf>;
  readonly #rejects: ReturnType<typeof sizesOf>;
  readonly #lines: ReturnType<typeof sizesOf>;
  readonly #durations: ReturnType<typeof durationsOf>;

  constructor(client: number, random: Seeded, isRelayed: boolean) {
    this.#client = client;
    this.#random = random;
    this.#arguments = isRelayed ? actorSizesOf(random) : sizesOf(random);
    this.#replies = actorSizesOf(random);
    this.#rejects = actorSizesOf(random);
    this.#lines = sizesOf(random);
    this.#durations = durationsOf(random);
  }

  next(number: number): Load {
    const random = this.#random;
    const end = endOf(random);
    const argument = this.#arguments.next();
    const duration = this.#durations.next();
    const data = Buffer.alloc(argument.value, number % 251);
    const classes = [
      `argument: ${argument.name}`,
      `stable write: ${argument.name}`,
      `takes ${end === 'never' ? 'for ever' : duration.name}`,
      `ends in ${end}`,
    ];
    let replyBytes = 0;
    let lineBytes = 0;
    if (end === 'reply' || end === 'reject') {
      const reply = (end === 'reply' ? this.#replies : this.#rejects).next();
      classes.push(`${end}: ${reply.name}`);
      replyBytes = reply.value;
    }
    if (end === 'reply' && random.oneIn(3)) {
      const line = this.#lines.next();
      classes.push(`debug line: ${line.name}`);
      lineBytes = line.value;
    }
    return {
      client: this.#client,
      number,
      instructions: duration.value,
      replyBytes,
      lineBytes,
      end,
      data,
      classes,
      duration: end === 'never' ? 'for ever' : duration.name,
      isJson: random.oneIn(3),
    };
  }
}

function recordOf({ client, number, instructions, replyBytes, lineBytes, end }: Load): object {
  return { client, number, instructions, replyBytes, lineBytes, end: { [end]: null } };
}

/** A client whose requests are numbered loads. */
abstract class LoadClient extends Client {
  protected readonly client: number;
  protected readonly tally: Tally;
  readonly #loads: Loads;
  protected load: Load | undefined;

  constructor(actor: Actor, client: number, random: Seeded, tally: Tally, isRelayed = false) {
    super(actor);
    this.client = client;
    this.tally = tally;
    this.#loads = new Loads(client, random, isRelayed);
  }

  protected draw(): Load {
    return (this.load = this.#loads.next(this.acknowledged + 1));
  }

  protected get sent(): Load {
    assert.ok(this.load);
    return this.load;
  }

  /** Adds the load to the tally. */
  protected note(): void {
    for (const name of this.sent.classes) this.tally.saw(name);
  }

  override async run(origin: string, options: RunOptions = {}): Promise<void> {
    await super.run(origin, options);
    if (this.isUncertain) this.tally.saw(`under way at the end: takes ${this.sent.duration}`);
  }
}

function blobIn(candid: Uint8Array): Uint8Array {
  const [blob] = IDL.decode([BLOB], candid) as unknown as [Uint8Array];
  return Uint8Array.from(blob);
}

/** Number of stored bytes that are read at once. */
const PIECE_BYTES = 2 ** 20;

/** Returns the bytes of the last load. */
async function storedOf(host: Host, actor: Actor, client: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for (let from = 0; ; from += PIECE_BYTES) {
    const argument = IDL.encode([IDL.Nat, IDL.Nat, IDL.Nat], [client, from, PIECE_BYTES]);
    const init = { method: 'POST', body: new Uint8Array(argument) };
    const answer = await host.server.fetch(`/query/${actor.name}/stored`, init);
    assert.equal(answer.status, 200);
    const piece = blobIn(new Uint8Array(await answer.arrayBuffer()));
    pieces.push(piece);
    if (piece.length < PIECE_BYTES) return Buffer.concat(pieces);
  }
}

async function reportOf(host: Host, actor: Actor): Promise<Report> {
  return (await host.query(actor, 'look', [''])) as Report;
}

/** Returns everything that a hauler shows of its loads, independent of its version. */
export async function loadsOf(host: Host, actor: Actor): Promise<object> {
  const { versions: _, ...report } = await reportOf(host, actor);
  assert.equal(report.begun, report.ended, `${actor.name}: a load is there by half`);
  const clients = report.taken.flatMap((count, client) => (count > 0 ? [client] : []));
  const stored = await Promise.all(clients.map((client) => storedOf(host, actor, client)));
  return { ...report, stored: stored.map((bytes) => createHash('sha256').update(bytes).digest('hex')) };
}

/** Returns the argument of `haul` for a load that never ends by itself. */
export function endlessLoad(client: number, number: number): Uint8Array {
  const load = { client, number, instructions: 0, replyBytes: 0, lineBytes: 0, end: { never: null } };
  return new Uint8Array(IDL.encode([LOAD, BLOB], [load, new Uint8Array(100_000)]));
}

/** Sends loads to an actor. */
export class Sender extends LoadClient {
  /** The client's bytes in the actor. */
  #stored: Uint8Array = new Uint8Array(0);

  protected next(): Request {
    const load = this.draw();
    const { name } = this.actor;
    if (!load.isJson) {
      const body = new Uint8Array(IDL.encode([LOAD, BLOB], [recordOf(load), load.data]));
      return { target: `/call/${name}/haul`, body };
    }
    const body = JSON.stringify([recordOf(load), Buffer.from(load.data).toString('base64')]);
    return { target: `/call-json/${name}/haul`, body };
  }

  protected override isDone(answer: Answer): boolean {
    if (isRefusedForUpgrade(answer)) return false;
    const { end, replyBytes, isJson, data } = this.sent;
    const shown = `${this.actor.name}, a load that is to end in ${end}: ${answer.status} ${answer.text.slice(0, 300)}`;
    this.note();
    if (end === 'reply') {
      assert.equal(answer.status, 200, shown);
      const reply = isJson
        ? Buffer.from((answer.json() as [string])[0], 'base64')
        : blobIn(Uint8Array.from(answer.body));
      assert.equal(reply.length, replyBytes, shown);
      assert.ok(reply.every((byte) => byte === LETTER));
    } else {
      assert.equal(answer.status, 400, shown);
      const { code, message } = answer.json() as { code: number; message: string };
      assert.equal(code, end === 'reject' ? 4 : 5, shown);
      if (end === 'reject') assert.equal(message.length, replyBytes, shown);
      else assert.match(message, end === 'trap' ? /dropped/ : /limit/);
    }
    const isKept = end === 'reply' || end === 'reject';
    if (isKept) this.#stored = data;
    return isKept;
  }

  /** Sends so many loads one after the other, going on from the state. */
  async send(host: Host, count: number): Promise<void> {
    const { taken } = await reportOf(host, this.actor);
    this.acknowledged = taken[this.client] ?? 0;
    let left = count;
    await this.run(host.server.origin, { isOver: () => left-- === 0 });
    assert.ok(!this.isUncertain);
  }

  async check(host: Host, { taken }: Report): Promise<void> {
    const done = taken[this.client] ?? -1;
    const canBeDone = this.load?.end === 'reply' || this.load?.end === 'reject';
    if (done > this.acknowledged && this.load !== undefined) this.#stored = this.load.data;
    this.settle(done, canBeDone);
    const bytes = await storedOf(host, this.actor, this.client);
    const text = `${this.actor.name} has the bytes of load ${done} of client ${this.client}`;
    assert.equal(Buffer.compare(bytes, this.#stored), 0, text);
  }
}

/** Sends loads to an actor by way of another. */
class Relayer extends LoadClient {
  readonly #to: Actor;

  constructor(from: Actor, to: Actor, client: number, random: Seeded, tally: Tally) {
    super(from, client, random, tally, true);
    this.#to = to;
  }

  protected next(): Request {
    const load = this.draw();
    const text = IDL.encode(
      [IDL.Principal, LOAD, BLOB],
      [Principal.fromText(this.#to.principal), recordOf(load), load.data],
    );
    return { target: `/call/${this.actor.name}/relay`, body: new Uint8Array(text) };
  }

  protected override isDone(answer: Answer): boolean {
    const { end, replyBytes } = this.sent;
    const shown = `${this.actor.name}, a relayed load that is to end in ${end}: ${answer.status} ${answer.text.slice(0, 300)}`;
    assert.equal(answer.status, 200, shown);
    this.note();
    const [bytes] = IDL.decode([IDL.Nat], Uint8Array.from(answer.body)) as unknown as [bigint];
    if (end === 'reply' || end === 'reject') assert.equal(Number(bytes), replyBytes, shown);
    return true;
  }

  protected override note(): void {
    for (const name of this.sent.classes) this.tally.saw(`relayed, ${name}`);
  }

  /** Checks the loads; calls that were under way end by themselves. */
  check(reports: ReadonlyMap<Actor, Report>): void {
    const { client } = this;
    const here = inReports(reports, this.actor);
    assert.equal(here.asked[client], here.relayed[client], 'a relayed load is still under way');
    assert.equal(
      inReports(reports, this.#to).taken[client],
      here.delivered[client],
      'loads that were taken by the other',
    );
    const done = here.relayed[client] ?? -1;
    // The server that died had begun the load, and the next one has ended it: on a slow machine most loads are relayed
    // that way.
    if (done > this.acknowledged && this.load !== undefined) this.note();
    this.settle(done);
  }
}

/** Queries with arguments of all sizes and checks that loads are whole. */
class Onlooker extends Client {
  readonly #sizes: ReturnType<typeof sizesOf>;
  readonly #tally: Tally;
  #class = '';

  constructor(actor: Actor, random: Seeded, tally: Tally) {
    super(actor);
    this.#sizes = sizesOf(random);
    this.#tally = tally;
  }

  protected next(): Request {
    const { name, value } = this.#sizes.next();
    this.#class = name;
    const data = Buffer.alloc(value, 7).toString('base64');
    return { target: `/query-json/${this.actor.name}/look`, body: JSON.stringify([data]) };
  }

  protected override isDone(answer: Answer): boolean {
    if (isRefusedForUpgrade(answer)) return false;
    super.isDone(answer);
    this.#tally.saw(`query: ${this.#class}`);
    const [{ begun, ended }] = answer.json() as [Report];
    assert.equal(begun, ended, `${this.actor.name}: a load was seen half taken`);
    return true;
  }
}

/** Replaces the code of an actor by the same code. */
class Upgrader extends Client {
  readonly #tally: Tally;

  constructor(actor: Actor, tally: Tally) {
    super(actor);
    this.#tally = tally;
  }

  protected next(): Request {
    return { target: `/upgrade/${this.actor.name}`, body: '' };
  }

  protected override isDone(answer: Answer): boolean {
    this.#tally.saw('upgrades');
    return super.isDone(answer);
  }

  override async run(origin: string, options: RunOptions = {}): Promise<void> {
    await super.run(origin, options);
    if (this.isUncertain) this.#tally.saw('under way at the end: an upgrade');
  }

  check({ versions }: Report): void {
    this.settle(versions - 1);
  }
}

export interface Haulers {
  readonly haulers: readonly [Actor, Actor];
  /** Actor with a large state whose code is replaced while it works. */
  readonly depot: Actor;
}

/** Number of values that the depot has to carry over. */
const BALLAST = 150_000;
const LETTER = 'x'.charCodeAt(0);

export class Haulage {
  readonly #actors: Haulers;
  readonly #senders: readonly Sender[];
  readonly #relayers: readonly Relayer[];
  readonly #onlookers: readonly Onlooker[];
  readonly #upgrader: Upgrader;
  readonly tally = new Tally();
  linesChecked = 0;

  constructor(actors: Haulers, random: Seeded) {
    const { tally } = this;
    const { haulers, depot } = actors;
    const [one, two] = haulers;
    this.#actors = actors;
    this.#senders = [one, one, two, depot].map((actor, client) => new Sender(actor, client, random, tally));
    this.#relayers = [new Relayer(one, two, 8, random, tally), new Relayer(two, one, 9, random, tally)];
    this.#onlookers = [one, two, depot].map((actor) => new Onlooker(actor, random, tally));
    this.#upgrader = new Upgrader(depot, tally);
  }

  get clients(): readonly Client[] {
    return [...this.#senders, ...this.#relayers, ...this.#onlookers, this.#upgrader];
  }

  /** Prepares the actors before the clients begin. */
  async prepare(host: Host): Promise<void> {
    await host.call(this.#actors.depot, 'fill', [BALLAST]);
  }

  /** Expects large and long loads to have occurred; after many kills, loads of every class. */
  expectAll(isLong: boolean): void {
    const { tally } = this;
    const durations = [...DURATION_NAMES, 'for ever'];
    const kinds = ['argument', 'reply', 'reject', 'debug line', 'query', 'relayed, argument', 'relayed, reply'];
    const missing = [
      ...kinds.flatMap((kind) => SIZE_NAMES.map((name) => `${kind}: ${name}`)),
      ...durations.flatMap((name) => [`takes ${name}`, `under way at the end: takes ${name}`]),
      ...['reply', 'reject', 'trap', 'never'].map((end) => `ends in ${end}`),
      'upgrades',
      'under way at the end: an upgrade',
    ].filter((name) => tally.of(name) === 0);
    if (isLong) assert.deepEqual(missing, [], 'never seen');
    const large = SIZE_NAMES.filter((name) => name.startsWith('over')).map((name) => `argument: ${name}`);
    const long = durations.slice(-3).flatMap((name) => [`takes ${name}`, `under way at the end: takes ${name}`]);
    for (const names of [large, long]) {
      assert.ok(
        names.some((name) => tally.of(name) > 0),
        `never seen: ${names.join(', ')}`,
      );
    }
  }

  /** `printed`: debug output of actors that the dead server had printed. */
  async check(host: Host, printed = ''): Promise<void> {
    const { haulers, depot } = this.#actors;
    const reports = new Map<Actor, Report>();
    await host.until(async () => {
      for (const actor of [...haulers, depot]) {
        const report = await reportOf(host, actor);
        assert.equal(report.begun, report.ended, `${actor.name}: a load is there by half`);
        reports.set(actor, report);
      }
      for (const relayer of this.#relayers) relayer.check(reports);
    }, END_MS_MAX);
    for (const sender of this.#senders) await sender.check(host, inReports(reports, sender.actor));
    this.#upgrader.check(inReports(reports, depot));
    assert.equal(await host.query(depot, 'filled'), BALLAST);
    for (const [, client, number] of printed.matchAll(/hauled (\d+) ([\d_]+) /g)) {
      this.linesChecked++;
      const n = Number(number?.replaceAll('_', ''));
      const last = Math.max(...[...reports.values()].map(({ taken }) => taken[Number(client)] ?? 0));
      assert.ok(n <= last, `load ${n} of client ${client} was printed, and is not in the state`);
    }
  }
}

/** Time limit of long loads that go on after a start, or are run again. */
const END_MS_MAX = 60_000;

function inReports(reports: ReadonlyMap<Actor, Report>, actor: Actor): Report {
  const report = reports.get(actor);
  assert.ok(report);
  return report;
}
