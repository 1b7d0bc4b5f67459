import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { before, describe, test } from 'node:test';
import type { CandidInterface, TupleCodec } from '../../../subsystems/codec/index.ts';
import { codec, fromCandid, roundTrip, toCandid } from './support.ts';

/*
 * Interfaces as the Motoko compiler writes them.
 */

const SOURCE = `
  persistent actor class Notes(owner : Principal, limit : ?Nat) {
    /// A note.
    public type Tree = { #leaf; #node : { left : Tree; right : Tree; value : Int } };
    public type Note = {
      id : Nat; title : Text; body : Blob; tags : [Text]; created : Int; score : Float; parent : ?Note;
      state : { #draft; #published : { at : Nat64; by : Principal } };
      pair : (Nat8, ?Text); type_ : Bool; any : Any; callback : shared query (Nat) -> async Text; peer : actor { ping : () -> async () };
    };
    public shared func add(note : Note) : async { #ok : Nat; #err : Text } { #ok(note.id) };
    public query func get(id : Nat) : async ?Note { ignore id; null };
    public query func two() : async (Nat, Text) { (1, "x") };
    public composite query func tree(tree : Tree) : async Tree { tree };
    public func notify(text : Text) { ignore text };
    public func nested(value : ??Nat) : async ??Nat { value };
  };`;

interface MotokoCompiler {
  write(path: string, content: string): void;
  candid(path: string): string;
}

describe('an interface from the Motoko compiler', () => {
  let parsed: CandidInterface<TupleCodec>;

  function args(method: string): TupleCodec {
    const found = parsed.methods.get(method);
    assert.ok(found !== undefined, method);
    return found.args;
  }

  before(() => {
    // The package is CommonJS with one compiler instance.
    const motoko = createRequire(import.meta.url)('motoko') as { default: MotokoCompiler };
    motoko.default.write('Notes.mo', SOURCE);
    parsed = codec.parseInterface(motoko.default.candid('Notes.mo'));
  });

  test('has the methods with their kinds', () => {
    const kinds = Object.fromEntries([...parsed.methods.values()].map((method) => [method.name, method.kind]));
    assert.deepEqual(kinds, {
      add: 'update',
      get: 'query',
      two: 'query',
      tree: 'composite_query',
      notify: 'oneway',
      nested: 'update',
    });
  });

  test('knows the init arguments of the actor class', () => {
    assert.ok(parsed.initArgs !== undefined);
    assert.equal(fromCandid(parsed.initArgs, toCandid(parsed.initArgs, '["aaaaa-aa",5]')), '["aaaaa-aa",5]');
  });

  // Motoko's `type_` is the Candid field `type`, a keyword that must stand in quotes.
  test('converts a value of a large record type', () => {
    const note = {
      id: 1,
      title: 'x',
      body: 'AP8=',
      tags: ['a'],
      created: '-9007199254740993',
      score: 1.5,
      parent: null,
      state: { published: { at: 5, by: 'aaaaa-aa' } },
      pair: [7, null],
      type: true,
      any: null,
      callback: { principal: 'aaaaa-aa', method: 'm' },
      peer: '2vxsx-fae',
    };
    const tuple = args('add');
    assert.deepEqual(JSON.parse(fromCandid(tuple, toCandid(tuple, JSON.stringify([note])))), [note]);
    const lossless = roundTrip(
      tuple,
      fromCandid(tuple, toCandid(tuple, JSON.stringify([{ ...note, parent: note }])), true).slice(1, -1),
      true,
    );
    assert.deepEqual(JSON.parse(fromCandid(tuple, toCandid(tuple, `[${lossless}]`, true))), [
      { ...note, parent: note },
    ]);
  });

  test('converts recursive variants and nested options', () => {
    const tree =
      '{"node":{"value":1,"left":{"leaf":null},"right":{"node":{"value":2,"left":{"leaf":null},"right":{"leaf":null}}}}}';
    assert.deepEqual(JSON.parse(roundTrip(args('tree'), tree)), JSON.parse(tree));
    assert.equal(roundTrip(args('nested'), '[null]'), '[null]');
  });
});
