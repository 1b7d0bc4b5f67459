/**
 * The canister that the suites run: as text for readers, and as the module assembled from it, so that suites need no
 * assembler. The canister counts in its heap, at byte 16; `kept` is the same count in a mutable global.
 */
export const CONTRACT_CANISTER_TEXT = `(module
  (import "ic0" "msg_arg_data_size" (func $size (result i32)))
  (import "ic0" "msg_arg_data_copy" (func $copy (param i32 i32 i32)))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "msg_reject_code" (func $code (result i32)))
  (import "ic0" "msg_cycles_accept" (func $accept (param i64) (result i64)))
  (import "ic0" "accept_message" (func $let_in))
  (import "ic0" "trap" (func $trap (param i32 i32)))
  (import "ic0" "debug_print" (func $print (param i32 i32)))
  (import "ic0" "global_timer_set" (func $timer (param i64) (result i64)))
  (import "ic0" "certified_data_set" (func $certify (param i32 i32)))
  (import "ic0" "stable64_size" (func $stable_size (result i64)))
  (import "ic0" "stable64_grow" (func $stable_grow (param i64) (result i64)))
  (import "ic0" "stable64_write" (func $stable_write (param i64 i64 i64)))
  (import "ic0" "stable64_read" (func $stable_read (param i64 i64 i64)))
  (import "ic0" "call_new" (func $call_new (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "ic0" "call_cycles_add" (func $call_cycles (param i64)))
  (import "ic0" "call_data_append" (func $call_data (param i32 i32)))
  (import "ic0" "call_perform" (func $call_perform (result i32)))
  (memory 1)
  (global $kept (mut i32) (i32.const 0))
  (table funcref (elem $replied $rejected))
  (data (i32.const 0) "said so")
  (data (i32.const 8) "inc")
  (func $set (param $n i32)
    (i32.store (i32.const 16) (local.get $n))
    (global.set $kept (local.get $n)))
  (func $add (param $n i32) (call $set (i32.add (i32.load (i32.const 16)) (local.get $n))))
  (func $argument (call $copy (i32.const 1024) (i32.const 0) (call $size)))
  (func $fail (call $trap (i32.const 0) (i32.const 7)))
  (func $answer
    (if (i32.ne (global.get $kept) (i32.load (i32.const 16))) (then unreachable))
    (call $append (i32.const 16) (i32.const 4)) (call $reply))
  ;; The first byte of the argument is the count to begin with; 255: it traps, having changed something.
  (func $begin
    (call $argument)
    (if (call $size) (then (call $set (i32.load8_u (i32.const 1024)))))
    (if (i32.eq (i32.load (i32.const 16)) (i32.const 255)) (then (call $fail))))
  (func (export "canister_init") (call $begin))
  (func (export "canister_pre_upgrade")
    (if (i64.eqz (call $stable_size)) (then (drop (call $stable_grow (i64.const 1)))))
    (call $stable_write (i64.const 100) (i64.const 16) (i64.const 4)))
  ;; On a fresh heap the count comes from stable memory. Globals are always fresh.
  (func (export "canister_post_upgrade")
    (if (i32.eqz (i32.load (i32.const 16))) (then (call $stable_read (i64.const 16) (i64.const 100) (i64.const 4))))
    (global.set $kept (i32.load (i32.const 16)))
    (call $begin))
  (func (export "canister_inspect_message") (if (call $size) (then (call $let_in))))
  (func (export "canister_global_timer") (call $add (i32.const 1000)))
  (func (export "canister_update inc") (call $add (i32.const 1)) (call $answer))
  (func (export "canister_query get") (call $answer))
  (func (export "canister_query scribble") (call $add (i32.const 50)) (call $answer))
  (func (export "canister_update fail") (call $add (i32.const 100)) (call $print (i32.const 0) (i32.const 4)) (call $fail))
  (func (export "canister_update silent") (call $add (i32.const 1)))
  (func (export "canister_update print") (call $print (i32.const 0) (i32.const 7)) (call $answer))
  (func (export "canister_update echo")
    (call $argument) (call $append (i32.const 1024) (call $size)) (call $reply))
  (func (export "canister_update take") (drop (call $accept (i64.const 5))) (call $answer))
  (func (export "canister_update timer") (drop (call $timer (i64.const 1700000000000000000))) (call $answer))
  (func (export "canister_update certify")
    (call $argument) (call $certify (i32.const 1024) (call $size)) (call $answer))
  (func (export "canister_update grow")
    (if (i32.eq (memory.grow (i32.const 15)) (i32.const -1)) (then (call $fail))) (call $answer))
  ;; Calls "inc" of the canister whose id is the argument, with 7 cycles, and answers when the response has come.
  (func (export "canister_update call")
    (call $argument)
    (call $call_new (i32.const 1024) (i32.const 10) (i32.const 8) (i32.const 3)
      (i32.const 0) (i32.const 10) (i32.const 1) (i32.const 20))
    (call $call_cycles (i64.const 7))
    (call $call_data (i32.const 0) (i32.const 4))
    (drop (call $call_perform))
    (call $add (i32.const 1)))
  ;; The same of the management canister.
  (func (export "canister_update ask")
    (call $call_new (i32.const 0) (i32.const 0) (i32.const 8) (i32.const 3)
      (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 0))
    (drop (call $call_perform)))
  (func $replied (param $more i32) (call $add (local.get $more)) (call $answer))
  (func $rejected (param $more i32) (call $add (i32.add (local.get $more) (call $code))) (call $answer)))`;

const BASE64 =
  'AGFzbQEAAAABNQpgAAF/YAN/f38AYAJ/fwBgAABgAX4BfmAAAX5gA35+fgBgCH9/f39/f39/AGABfgBgAX8AAo0DEwNpYzARbXNnX2FyZ19kYXRh' +
  'X3NpemUAAANpYzARbXNnX2FyZ19kYXRhX2NvcHkAAQNpYzAVbXNnX3JlcGx5X2RhdGFfYXBwZW5kAAIDaWMwCW1zZ19yZXBseQADA2ljMA9tc2df' +
  'cmVqZWN0X2NvZGUAAANpYzARbXNnX2N5Y2xlc19hY2NlcHQABANpYzAOYWNjZXB0X21lc3NhZ2UAAwNpYzAEdHJhcAACA2ljMAtkZWJ1Z19wcmlu' +
  'dAACA2ljMBBnbG9iYWxfdGltZXJfc2V0AAQDaWMwEmNlcnRpZmllZF9kYXRhX3NldAACA2ljMA1zdGFibGU2NF9zaXplAAUDaWMwDXN0YWJsZTY0' +
  'X2dyb3cABANpYzAOc3RhYmxlNjRfd3JpdGUABgNpYzANc3RhYmxlNjRfcmVhZAAGA2ljMAhjYWxsX25ldwAHA2ljMA9jYWxsX2N5Y2xlc19hZGQA' +
  'CANpYzAQY2FsbF9kYXRhX2FwcGVuZAACA2ljMAxjYWxsX3BlcmZvcm0AAAMbGgkJAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwkJBAUBcAECAgUDAQAB' +
  'BgYBfwFBAAsHpAMSDWNhbmlzdGVyX2luaXQAGRRjYW5pc3Rlcl9wcmVfdXBncmFkZQAaFWNhbmlzdGVyX3Bvc3RfdXBncmFkZQAbGGNhbmlzdGVy' +
  'X2luc3BlY3RfbWVzc2FnZQAcFWNhbmlzdGVyX2dsb2JhbF90aW1lcgAdE2NhbmlzdGVyX3VwZGF0ZSBpbmMAHhJjYW5pc3Rlcl9xdWVyeSBnZXQA' +
  'HxdjYW5pc3Rlcl9xdWVyeSBzY3JpYmJsZQAgFGNhbmlzdGVyX3VwZGF0ZSBmYWlsACEWY2FuaXN0ZXJfdXBkYXRlIHNpbGVudAAiFWNhbmlzdGVy' +
  'X3VwZGF0ZSBwcmludAAjFGNhbmlzdGVyX3VwZGF0ZSBlY2hvACQUY2FuaXN0ZXJfdXBkYXRlIHRha2UAJRVjYW5pc3Rlcl91cGRhdGUgdGltZXIA' +
  'JhdjYW5pc3Rlcl91cGRhdGUgY2VydGlmeQAnFGNhbmlzdGVyX3VwZGF0ZSBncm93ACgUY2FuaXN0ZXJfdXBkYXRlIGNhbGwAKRNjYW5pc3Rlcl91' +
  'cGRhdGUgYXNrACoJCAEAQQALAissCowDGg0AQRAgADYCACAAJAALDABBECgCACAAahATCwsAQYAIQQAQABABCwgAQQBBBxAHCxYAIwBBECgCAEcE' +
  'QAALQRBBBBACEAMLHwAQFRAABEBBgAgtAAAQEwtBECgCAEH/AUYEQBAWCwsEABAYCxYAEAtQBEBCARAMGgtC5ABCEEIEEA0LHQBBECgCAEUEQEIQ' +
  'QuQAQgQQDgtBECgCACQAEBgLCQAQAARAEAYLCwcAQegHEBQLCABBARAUEBcLBAAQFwsIAEEyEBQQFwsPAEHkABAUQQBBBBAIEBYLBgBBARAUCwoA' +
  'QQBBBxAIEBcLDQAQFUGACBAAEAIQAwsJAEIFEAUaEBcLEQBCgICoseOf58sXEAkaEBcLDQAQFUGACBAAEAoQFwsQAEEPQABBf0YEQBAWCxAXCygA' +
  'EBVBgAhBCkEIQQNBAEEKQQFBFBAPQgcQEEEAQQQQERASGkEBEBQLFwBBAEEAQQhBA0EAQQBBAUEAEA8QEhoLCAAgABAUEBcLCwAgABAEahAUEBcL' +
  'CxUCAEEACwdzYWlkIHNvAEEICwNpbmM=';

export const CONTRACT_CANISTER: Uint8Array = new Uint8Array(Buffer.from(BASE64, 'base64'));
