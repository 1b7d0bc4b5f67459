;; Writes down all that an update can see of its surroundings, one line of 64 bytes a message: what runs it again must see
;; exactly the same. The number of lines is in a global. Grows by a page for every byte of the argument of `grow`.
;;   line   time · instructions so far · balance · canister version · first 8 bytes of the argument · caller's length and bytes
(module
  (import "ic0" "msg_reply" (func $msg_reply))
  (import "ic0" "msg_reply_data_append" (func $reply_append (param i32 i32)))
  (import "ic0" "msg_arg_data_size" (func $arg_size (result i32)))
  (import "ic0" "msg_arg_data_copy" (func $arg_copy (param i32 i32 i32)))
  (import "ic0" "msg_caller_size" (func $caller_size (result i32)))
  (import "ic0" "msg_caller_copy" (func $caller_copy (param i32 i32 i32)))
  (import "ic0" "time" (func $time (result i64)))
  (import "ic0" "performance_counter" (func $instructions (param i32) (result i64)))
  (import "ic0" "canister_cycle_balance128" (func $balance (param i32)))
  (import "ic0" "canister_version" (func $version (result i64)))
  (import "ic0" "certified_data_set" (func $certify (param i32 i32)))
  (import "ic0" "stable64_grow" (func $stable_grow (param i64) (result i64)))
  (import "ic0" "stable64_write" (func $stable_write (param i64 i64 i64)))
  (import "ic0" "stable64_read" (func $stable_read (param i64 i64 i64)))
  (import "ic0" "trap" (func $trap (param i32 i32)))

  (memory 4)
  ;; Where the stored lines are shown.
  (global $shown i32 (i32.const 131072))
  (global $lines (mut i32) (i32.const 0))
  (global $sum (mut i64) (i64.const 1))

  (func (export "canister_init") (drop (call $stable_grow (i64.const 2))))

  (func $next (result i32) (i32.mul (global.get $lines) (i32.const 64)))
  (func $write_line
    (local $at i32)
    (local.set $at (call $next))
    (i64.store (local.get $at) (call $time))
    (call $balance (i32.add (local.get $at) (i32.const 16)))
    (i64.store offset=24 (local.get $at) (call $version))
    (call $arg_copy (i32.add (local.get $at) (i32.const 32)) (i32.const 0)
      (select (call $arg_size) (i32.const 8) (i32.lt_u (call $arg_size) (i32.const 8))))
    (i32.store8 offset=40 (local.get $at) (call $caller_size))
    (call $caller_copy (i32.add (local.get $at) (i32.const 41)) (i32.const 0)
      (select (call $caller_size) (i32.const 23) (i32.lt_u (call $caller_size) (i32.const 23))))
    (call $stable_write (i64.extend_i32_u (local.get $at)) (i64.extend_i32_u (local.get $at)) (i64.const 64))
    (call $certify (local.get $at) (i32.const 32))
    (global.set $sum
      (i64.add (i64.mul (global.get $sum) (i64.const 6364136223846793005)) (i64.load (local.get $at))))
    (global.set $lines (i32.add (global.get $lines) (i32.const 1)))
    ;; Last, so that what it counts is most of the message.
    (i64.store offset=8 (local.get $at) (call $instructions (i32.const 0))))

  (func $answer
    (i32.store (global.get $shown) (global.get $lines))
    (i64.store offset=4 (global.get $shown) (global.get $sum))
    (call $reply_append (global.get $shown) (i32.const 12))
    (call $msg_reply))

  (func (export "canister_update write") (call $write_line) (call $answer))
  (func (export "canister_update fall") (call $write_line) (call $trap (i32.const 0) (i32.const 8)))
  (func (export "canister_update grow")
    (if (i32.eq (memory.grow (call $arg_size)) (i32.const -1)) (then (unreachable)))
    (call $write_line)
    (call $answer))
  ;; Number of lines, sum, the lines, and the lines again as they are in stable memory.
  (func (export "canister_query dump")
    (i32.store (global.get $shown) (global.get $lines))
    (i64.store offset=4 (global.get $shown) (global.get $sum))
    (call $reply_append (global.get $shown) (i32.const 12))
    (call $reply_append (i32.const 0) (call $next))
    (call $stable_read (i64.extend_i32_u (global.get $shown)) (i64.const 0) (i64.extend_i32_u (call $next)))
    (call $reply_append (global.get $shown) (call $next))
    (call $msg_reply)))
