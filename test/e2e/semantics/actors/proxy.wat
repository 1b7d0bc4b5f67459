;; Calls whomever the argument names, and answers with what came back.
;; Argument: length and bytes of the callee's id, length and bytes of the method's name, u64 cycles, the payload.
;; Answer: u32 reject code (0: a reply), u64 cycles refunded, then the reply or the reject's text.
(module
  (import "ic0" "msg_reply" (func $msg_reply))
  (import "ic0" "msg_reply_data_append" (func $reply_append (param i32 i32)))
  (import "ic0" "msg_reject_code" (func $reject_code (result i32)))
  (import "ic0" "msg_reject_msg_size" (func $reject_size (result i32)))
  (import "ic0" "msg_reject_msg_copy" (func $reject_copy (param i32 i32 i32)))
  (import "ic0" "msg_arg_data_size" (func $arg_size (result i32)))
  (import "ic0" "msg_arg_data_copy" (func $arg_copy (param i32 i32 i32)))
  (import "ic0" "msg_cycles_refunded128" (func $refunded (param i32)))
  (import "ic0" "call_new" (func $call_new (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "ic0" "call_data_append" (func $call_append (param i32 i32)))
  (import "ic0" "call_cycles_add128" (func $call_cycles (param i64 i64)))
  (import "ic0" "call_perform" (func $perform (result i32)))

  (memory 100)
  (table 4 funcref)
  (elem (i32.const 0) $replied $rejected $told $refused)
  ;; The argument; what goes back.
  (global $in i32 (i32.const 4096))
  (global $out i32 (i32.const 3145728))

  (func $answer (param $size i32)
    (call $reply_append (global.get $out) (i32.add (local.get $size) (i32.const 12)))
    (call $msg_reply))
  (func $replied (param i32)
    (call $refunded (i32.add (global.get $out) (i32.const 4)))
    (call $told (i32.const 0)))
  (func $told (param i32)
    (i32.store (global.get $out) (i32.const 0))
    (call $arg_copy (i32.add (global.get $out) (i32.const 12)) (i32.const 0) (call $arg_size))
    (call $answer (call $arg_size)))
  (func $rejected (param i32)
    (call $refunded (i32.add (global.get $out) (i32.const 4)))
    (call $refused (i32.const 0)))
  (func $refused (param i32)
    (i32.store (global.get $out) (call $reject_code))
    (call $reject_copy (i32.add (global.get $out) (i32.const 12)) (i32.const 0) (call $reject_size))
    (call $answer (call $reject_size)))

  ;; The call up to its cycles, with the callbacks from a place in the table; where its payload begins.
  ;; Composite queries, whose callbacks know of no cycles, have their own.
  (func $begin (param $callbacks i32) (result i32)
    (local $callee i32) (local $name i32)
    (call $arg_copy (global.get $in) (i32.const 0) (call $arg_size))
    (local.set $callee (i32.add (global.get $in) (i32.const 1)))
    (local.set $name
      (i32.add (i32.add (local.get $callee) (i32.load8_u (global.get $in))) (i32.const 1)))
    (call $call_new
      (local.get $callee) (i32.load8_u (global.get $in))
      (local.get $name) (i32.load8_u (i32.sub (local.get $name) (i32.const 1)))
      (local.get $callbacks) (i32.const 0) (i32.add (local.get $callbacks) (i32.const 1)) (i32.const 0))
    (i32.add (local.get $name) (i32.load8_u (i32.sub (local.get $name) (i32.const 1)))))
  (func $end (param $payload i32)
    (call $call_append (local.get $payload)
      (i32.sub (i32.add (global.get $in) (call $arg_size)) (local.get $payload)))
    (if (call $perform) (then (unreachable))))

  (func (export "canister_update forward")
    (local $at i32)
    (local.set $at (call $begin (i32.const 0)))
    (call $call_cycles (i64.const 0) (i64.load (local.get $at)))
    (call $end (i32.add (local.get $at) (i32.const 8))))
  (func (export "canister_composite_query ask")
    (call $end (i32.add (call $begin (i32.const 2)) (i32.const 8))))
)
