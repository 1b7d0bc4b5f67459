import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { instrument } from '../../../subsystems/instrument/index.ts';
import { decodeModule, type Ic0Signature, IC0_SIGNATURES, validateCanister } from '../../../subsystems/wasm/index.ts';
import { wat } from '../../support/wat.ts';

function load(bytes: Uint8Array): Uint8Array {
  const module = decodeModule(bytes);
  validateCanister(module);
  return instrument(module).bytes;
}

function refused(bytes: Uint8Array, code: string, message: RegExp, what = code): void {
  assert.throws(
    () => load(bytes),
    (error: unknown) => {
      assert.ok(error instanceof ServerError, `${what}: ${String(error)}`);
      assert.equal(error.kind, 'invalid', what);
      assert.equal(error.code, code, `${what}: ${error.message}`);
      assert.match(error.message, message, what);
      return true;
    },
    what,
  );
}

/** Makes a module with one function of the given code bytes (without `end`). */
function withCode(...code: number[]): Uint8Array {
  const body = [0, ...code, 0x0b];
  return Uint8Array.of(
    0,
    0x61,
    0x73,
    0x6d,
    1,
    0,
    0,
    0,
    1,
    4,
    1,
    0x60,
    0,
    0,
    3,
    2,
    1,
    0,
    5,
    3,
    1,
    0,
    1,
    7,
    5,
    1,
    1,
    0x66,
    0,
    0,
    10,
    body.length + 2,
    1,
    body.length,
    ...body,
  );
}

describe('a canister module', () => {
  it('may import every ic0 function with its exact type, in both widths', () => {
    for (const width of [32, 64] as const) {
      const pointer = `i${width}`;
      const type = (name: string): string =>
        name === 'I' || name === 'bits' ? pointer : name === 'u64' ? 'i64' : name;
      const imports = Object.entries<Ic0Signature>(IC0_SIGNATURES)
        .filter(([, signature]) => width === 32 || !signature.isOnly32Bit)
        .map(
          ([name, { params, result }]) =>
            `(import "ic0" "${name}" (func (param ${params.map(type).join(' ')}) ${result === undefined ? '' : `(result ${type(result)})`}))`,
        );
      assert.ok(imports.length > 60);
      const bytes = wat(
        `(module ${imports.join(' ')} (memory ${width === 64 ? 'i64' : ''} 1) (func (export "canister_init")))`,
      );
      assert.ok(WebAssembly.validate(load(bytes)));
    }
  });

  it('may import nothing else', () => {
    refused(
      wat('(module (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32))))'),
      'wasm-import',
      /WASI.*wasi2ic/,
    );
    refused(wat('(module (import "env" "abort" (func)))'), 'wasm-import', /env\.abort: only functions of ic0/);
    refused(wat('(module (import "ic0" "msg_rely" (func)))'), 'wasm-import', /ic0\.msg_rely, which does not exist/);
    refused(
      wat('(module (import "ic0" "msg_reply" (func (param i32))))'),
      'wasm-import',
      /ic0\.msg_reply, has type \(i32\) -> \(\).* must be \(\) -> \(\)/,
    );
    refused(
      wat('(module (import "ic0" "msg_arg_data_size" (func (result i32))) (memory i64 1))'),
      'wasm-import',
      /64-bit module it must be \(\) -> \(i64\)/,
    );
    refused(
      wat('(module (import "ic0" "stable_size" (func (result i32))) (memory i64 1))'),
      'wasm-import',
      /only for 32-bit modules/,
    );
    refused(wat('(module (import "env" "memory" (memory 1)))'), 'wasm-import', /the memory env\.memory/);
    refused(wat('(module (import "env" "table" (table 1 funcref)))'), 'wasm-import', /the table env\.table/);
    refused(wat('(module (import "env" "g" (global i32)))'), 'wasm-import', /the global env\.g/);
  });

  it('exports methods and hooks of type () -> () and no reserved name', () => {
    refused(
      wat('(module (func (export "canister_update f") (param i32)))'),
      'wasm-export',
      /"canister_update f" \(function 0\).*\(i32\) -> \(\).*must be \(\) -> \(\)/,
    );
    refused(wat('(module (func (export "canister_init") (result i32) i32.const 1))'), 'wasm-export', /"canister_init"/);
    refused(
      wat('(module (func (export "canister_update f")) (func (export "canister_query f")))'),
      'wasm-export',
      /method "f" is exported as canister_update and as canister_query/,
    );
    refused(wat('(module (func (export "canister_frobnicate")))'), 'wasm-export', /neither a method nor a hook/);
    refused(wat('(module (func (export "canister_start")))'), 'wasm-export', /reserved/);
    refused(wat('(module (memory (export "stable_memory") 1))'), 'wasm-export', /reserved/);
    load(
      wat(
        '(module (global (export "canister_data") i32 (i32.const 1)) (func (export "canister_composite_query q")) (func (export "other") (param i32)))',
      ),
    );
    const methods = Array.from({ length: 1001 }, (_, k) => `(export "canister_query m${k}" (func 0))`);
    refused(wat(`(module (func) ${methods.join('')})`), 'wasm-limit', /1001 methods, at most 1000/);
    refused(
      wat(`(module (func) (export "canister_query ${'x'.repeat(20_001)}" (func 0)))`),
      'wasm-limit',
      /20001 bytes, at most 20000/,
    );
  });

  it('keeps to the limits of memories, tables, globals and segments', () => {
    refused(wat('(module (memory 65536))'), 'wasm-limit', /begins with 65536 pages, at most 65535/);
    refused(wat('(module (memory i64 1 98305))'), 'wasm-limit', /maximum is 98305 pages, at most 98304/);
    refused(wat('(module (table 1000001 funcref))'), 'wasm-limit', /1000001 elements/);
    refused(wat('(module (table 1 funcref) (table 1 funcref))'), 'wasm-limit', /2 tables, at most 1/);
    refused(wat(`(module ${'(global i32 (i32.const 0))'.repeat(1001)})`), 'wasm-limit', /1001 globals/);
    refused(wat('(module (global funcref (ref.null func)))'), 'wasm-unsupported', /global 0 has type 0x70/);
    // The bounds of segments are checked at instantiation: such modules are valid.
    load(wat('(module (memory 1) (data (i32.const 65530) "0123456789"))'));
    load(wat('(module (func) (table 1 funcref) (elem (i32.const 1) 0))'));
    refused(
      wat('(module (data "x") (data (i32.const 0) "x"))'),
      'wasm-malformed',
      /data segment 1: the module has no memory/,
    );
    load(
      wat('(module (memory 1) (data (i32.const 65526) "0123456789") (table 1 funcref) (func) (elem (i32.const 0) 0))'),
    );
  });

  it('has at most 16 metadata sections, each once', () => {
    const section = (name: string, content = 'x'): number[] => {
      const bytes = [name.length, ...Buffer.from(name), ...Buffer.from(content)];
      return [0, bytes.length, ...bytes];
    };
    const module = (...sections: number[][]): Uint8Array =>
      Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, ...sections.flat());
    load(module(section('icp:public candid:service'), section('icp:private '), section('motoko')));
    refused(module(section('icp:secret x')), 'wasm-unsupported', /"icp:secret x"/);
    refused(
      module(section('icp:public x'), section('icp:private x')),
      'wasm-unsupported',
      /"x" stands in the module twice/,
    );
    refused(
      module(...Array.from({ length: 17 }, (_, k) => section(`icp:public ${k}`))),
      'wasm-limit',
      /17 icp: sections/,
    );
  });

  it('uses no instruction beyond the list; the message names function, instruction and place', () => {
    const cases: readonly (readonly [number[], RegExp])[] = [
      [[0xfe, 0x03, 0x00], /function 0 "f": .*threads and atomics.* at offset 0x/],
      [[0xfd, 0x80, 0x02], /relaxed SIMD/],
      [[0xfb, 0x00, 0x00], /garbage collection/],
      [[0x06, 0x40], /exception handling/],
      [[0x08, 0x00], /exception handling/],
      [[0x14, 0x00], /typed function references/],
      [[0x26, 0x00], /table\.set/],
      [[0xfc, 0x0c, 0, 0], /table\.init/],
      [[0xfc, 0x0f, 0], /table\.grow/],
      [[0xfc, 0x12], /unknown/],
      [[0xc5], /unknown/],
      [[0x28, 0x42, 0x01, 0x00], /a second memory/],
    ];
    for (const [code, message] of cases) refused(withCode(...code), 'wasm-unsupported', message, code.join());
    refused(withCode(0x41, 1), 'wasm-malformed', /invalid module: .*function #0/s);
    refused(withCode(0x20, 5, 0x1a), 'wasm-malformed', /invalid module/);
  });

  it('has blocks of no type but those that are known: what V8 reads otherwise must not get in', () => {
    const known = [0x40, 0x6f, 0x70, 0x7b, 0x7c, 0x7d, 0x7e, 0x7f];
    let valid = 0;
    for (const opcode of [0x02, 0x03, 0x04]) {
      for (let type = 0x40; type < 0x80; type++) {
        for (const more of [[], ...Array.from({ length: 0x80 }, (_, heapType) => [heapType])]) {
          const condition = opcode === 0x04 ? [0x41, 1] : [];
          const otherwise = opcode === 0x04 ? [0x05, 0x00] : [];
          const bytes = withCode(
            ...condition,
            opcode,
            type,
            ...more,
            0x00,
            ...otherwise,
            0x0b,
            ...(type === 0x40 ? [] : [0x1a]),
          );
          if (!WebAssembly.validate(bytes)) continue;
          valid++;
          const what = [opcode, type, ...more].map((byte) => byte.toString(16)).join(' ');
          if (known.includes(type)) load(bytes);
          else refused(bytes, 'wasm-unsupported', /block type 0x\w\w is not supported at offset 0x/, what);
        }
      }
    }
    assert.ok(valid > 3 * known.length, 'V8 knows types that are refused');
  });

  it('has no shared or second memory, no tags, no component', () => {
    refused(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 5, 4, 1, 3, 1, 1), 'wasm-unsupported', /shared memory/);
    refused(wat('(module (memory 1) (memory 1))'), 'wasm-limit', /2 memories, at most 1/);
    refused(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 13, 1, 0), 'wasm-unsupported', /exception handling/);
    refused(Uint8Array.of(0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0), 'wasm-unsupported', /component/);
    refused(Uint8Array.of(0x7f, 0x45, 0x4c, 0x46), 'wasm-malformed', /not a WebAssembly module/);
    refused(new Uint8Array(0), 'wasm-malformed', /only 0 bytes/);
  });
});
