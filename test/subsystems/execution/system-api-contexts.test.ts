/**
 * Every import, in every context, in both pointer widths: links with its type and traps exactly where it must. The
 * table is copied from the interface specification independently, so that a slip in the server's own tables shows here.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { Instance } from '../../../subsystems/execution/engine/instance.ts';
import { createSystemApi, CurrentExecution } from '../../../subsystems/execution/engine/system-api/index.ts';
import {
  ANONYMOUS,
  assemble,
  CANISTER_ID,
  contextOf,
  EMPTY_ARGS,
  faultOf,
  load,
  newEngine,
  POLICY,
  STACK_BYTES,
  TestCanister,
  type Width,
  WIDTHS,
} from './engine-fixture.ts';

/** name | type | contexts; `*` is every context but s. */
const SPECIFICATION = `
msg_arg_data_size | () -> I | I U RQ NRQ TQ CQ Ry CRy F
msg_arg_data_copy | (I I I) | I U RQ NRQ TQ CQ Ry CRy F
msg_caller_size | () -> I | *
msg_caller_copy | (I I I) | *
msg_caller_info_data_size | () -> I | U RQ NRQ CQ Ry Rt CRy CRt C CC F
msg_caller_info_data_copy | (I I I) | U RQ NRQ CQ Ry Rt CRy CRt C CC F
msg_caller_info_signer_size | () -> I | U RQ NRQ CQ Ry Rt CRy CRt C CC F
msg_caller_info_signer_copy | (I I I) | U RQ NRQ CQ Ry Rt CRy CRt C CC F
msg_reject_code | () -> i32 | Ry Rt CRy CRt C
msg_reject_msg_size | () -> I | Rt CRt
msg_reject_msg_copy | (I I I) | Rt CRt
msg_deadline | () -> i64 | U RQ NRQ CQ Ry Rt CRy CRt
msg_method_name_size | () -> I | F
msg_method_name_copy | (I I I) | F
accept_message | () | F
msg_reply_data_append | (I I) | U RQ NRQ TQ CQ Ry Rt CRy CRt
msg_reply | () | U RQ NRQ TQ CQ Ry Rt CRy CRt
msg_reject | (I I) | U RQ NRQ TQ CQ Ry Rt CRy CRt
msg_cycles_available128 | (I) | U RQ Ry Rt
msg_cycles_accept128 | (i64 i64 I) | U RQ Ry Rt
msg_cycles_refunded128 | (I) | Ry Rt
canister_cycle_balance128 | (I) | *
canister_liquid_cycle_balance128 | (I) | *
cycles_burn128 | (i64 i64 I) | I G U RQ Ry Rt C T
call_cycles_add128 | (i64 i64) | U Ry Rt T
call_new | (I I I I I I I I) | U CQ Ry Rt CRy CRt T
call_on_cleanup | (I I) | U CQ Ry Rt CRy CRt T
call_data_append | (I I) | U CQ Ry Rt CRy CRt T
call_with_best_effort_response | (i32) | U CQ Ry Rt CRy CRt T
call_perform | () -> i32 | U CQ Ry Rt CRy CRt T
stable64_size | () -> i64 | * s
stable64_grow | (i64) -> i64 | * s
stable64_write | (i64 i64 i64) | * s
stable64_read | (i64 i64 i64) | * s
time | () -> i64 | *
global_timer_set | (i64) -> i64 | I G U Ry Rt C T
performance_counter | (i32) -> i64 | * s
canister_self_size | () -> I | *
canister_self_copy | (I I I) | *
subnet_self_size | () -> I | *
subnet_self_copy | (I I I) | *
canister_status | () -> i32 | *
canister_version | () -> i64 | *
is_controller | (I I) -> i32 | * s
in_replicated_execution | () -> i32 | * s
root_key_size | () -> I | I G U RQ Ry Rt C T
root_key_copy | (I I I) | I G U RQ Ry Rt C T
certified_data_set | (I I) | I G U Ry Rt T
data_certificate_present | () -> i32 | *
data_certificate_size | () -> I | NRQ CQ
data_certificate_copy | (I I I) | NRQ CQ
env_var_count | () -> I | *
env_var_name_size | (I) -> I | *
env_var_name_copy | (I I I I) | *
env_var_name_exists | (I I) -> i32 | *
env_var_value_size | (I I) -> I | *
env_var_value_copy | (I I I I I) | *
cost_call | (i64 i64 I) | * s
cost_create_canister | (I) | * s
cost_http_request | (i64 i64 I) | * s
cost_http_request_v2 | (I I I) | * s
cost_sign_with_ecdsa | (I I i32 I) -> i32 | * s
cost_sign_with_schnorr | (I I i32 I) -> i32 | * s
cost_vetkd_derive_key | (I I i32 I) -> i32 | * s
debug_print | (I I) | * s
trap | (I I) | * s
`;
const ONLY_32_BIT = `
msg_cycles_available | () -> i64 | U RQ Ry Rt
msg_cycles_refunded | () -> i64 | Ry Rt
msg_cycles_accept | (i64) -> i64 | U RQ Ry Rt
canister_cycle_balance | () -> i64 | *
call_cycles_add | (i64) | U Ry Rt T
stable_size | () -> i32 | * s
stable_grow | (i32) -> i32 | * s
stable_write | (i32 i32 i32) | * s
stable_read | (i32 i32 i32) | * s
`;

const MODES = {
  s: 'start',
  I: 'init',
  G: 'pre upgrade',
  U: 'update',
  RQ: 'replicated query',
  NRQ: 'non replicated query',
  TQ: 'transform query',
  CQ: 'composite query',
  Ry: 'reply callback',
  Rt: 'reject callback',
  CRy: 'composite reply callback',
  CRt: 'composite reject callback',
  C: 'cleanup',
  CC: 'composite cleanup',
  F: 'inspect message',
  T: 'system task',
} as const;
type Mode = keyof typeof MODES;
const ALL_MODES = Object.keys(MODES) as Mode[];

interface Row {
  readonly name: string;
  readonly params: readonly string[];
  readonly result: string | undefined;
  readonly modes: ReadonlySet<string>;
}

function rowsFor(width: Width): readonly Row[] {
  const lines = (SPECIFICATION + (width === 32 ? ONLY_32_BIT : '')).trim().split(/\n+/);
  return lines.map((line) => {
    const [name = '', type = '', contexts = ''] = line.split(' | ');
    const match = /^\((.*)\)(?: -> (\w+))?$/.exec(type);
    assert.ok(match, line);
    const params = (match[1] ?? '') === '' ? [] : (match[1] ?? '').split(' ');
    const codes = contexts
      .split(' ')
      .flatMap((code) => (code === '*' ? ALL_MODES.filter((mode) => mode !== 's') : [code]));
    return { name, params, result: match[2], modes: new Set(codes) };
  });
}

/** Makes a module that imports all of them, with a method for each that calls it with zeros. */
function callEach(rows: readonly Row[]): string {
  const typeOf = (letter: string): string => (letter === 'I' ? 'PTR' : letter);
  const imports = rows.map(({ name, params, result }) => {
    const list = params.length === 0 ? '' : ` (param ${params.map(typeOf).join(' ')})`;
    return `(import "ic0" "${name}" (func $${name}${list}${result === undefined ? '' : ` (result ${typeOf(result)})`}))`;
  });
  const methods = rows.map(({ name, params, result }) => {
    const call = `(call $${name} ${params.map((letter) => `(${typeOf(letter)}.const 0)`).join(' ')})`;
    return `(func (export "canister_update ${name}") ${result === undefined ? call : `(drop ${call})`})`;
  });
  return `(module ${imports.join('\n')} (memory (export "memory") %index 1) ${methods.join('\n')})`;
}

for (const width of WIDTHS) {
  test(`every import of a ${width}-bit module traps exactly outside its contexts`, () => {
    const rows = rowsFor(width);
    const module = load(assemble(width, callEach(rows)));
    const x = new CurrentExecution(POLICY);
    const instance = Instance.create(
      module.code,
      createSystemApi(x),
      new ControlMemory({ stackBytes: STACK_BYTES, journalBytesMax: 1 << 24 }),
    );
    const canister = newEngine().createCanister({
      id: CANISTER_ID,
      balance: 10n ** 14n,
      controllers: [],
      env: new Map(),
    });
    const wrong: string[] = [];
    for (const { name, modes } of rows) {
      const entry = module.info.entries.get(`canister_update ${name}`);
      assert.ok(entry !== undefined, name);
      for (const mode of ALL_MODES) {
        x.begin(mode, instance, canister, contextOf(ANONYMOUS), EMPTY_ARGS, 0, true, 1_000_000);
        instance.begin(1_000_000);
        const fault = instance.run(entry);
        instance.rollback();
        canister.stable.rollback();
        x.end();
        const refusal = `Canister violated contract: "ic0_${name}" cannot be executed in ${MODES[mode]} mode`;
        const isRefused = fault?.message === refusal;
        if (isRefused === modes.has(mode)) wrong.push(`${name} in ${mode}: ${fault?.message ?? 'ran'}`);
        // An allowed import may fail in other ways, but not with a fault of the host.
        if (fault?.kind === 'host') wrong.push(`${name} in ${mode}: ${fault.message}`);
      }
    }
    assert.deepEqual(wrong, []);
    assert.equal(rows.length, width === 32 ? 75 : 66);
  });
}

test('every import the server offers is in the specification, but for those of older replicas', () => {
  const named = new Set(rowsFor(32).map((row) => row.name));
  const offered = Object.keys(createSystemApi(new CurrentExecution(POLICY)));
  assert.deepEqual(offered.filter((name) => !named.has(name)).sort(), ['mint_cycles', 'mint_cycles128']);
});

test('minting cycles links and traps: only the cycles minting canister may', () => {
  for (const width of WIDTHS) {
    const c = new TestCanister({
      bytes: assemble(
        width,
        `(module (import "ic0" "mint_cycles128" (func $mint (param i64 i64 PTR))) (memory %index 1)
          (func (export "canister_update mint") (call $mint (i64.const 0) (i64.const 1) (PTR.const 0))))`,
      ),
    });
    const text = 'Canister violated contract: ic0.mint_cycles128 cannot be executed on a canister other than';
    assert.ok(faultOf(c.update('mint'), 'trap').startsWith(text));
  }
});

test('a 64-bit module cannot ask for the imports that stop at 32 bits', () => {
  const text = '(module (import "ic0" "stable_size" (func (result i32))) (memory %index 1))';
  assert.doesNotThrow(() => load(assemble(32, text)));
  assert.throws(() => load(assemble(64, text)), /stable_size/);
});
