/**
 * A process that only suspends calls on stacks of their own, so that its address space shows their size. Prints a line
 * of JSON.
 */
import { readFileSync } from 'node:fs';
import { sizeLongStacks } from '../../../subsystems/execution/pool/long-stacks.ts';
import { messageStackBytes } from '../../../subsystems/instrument/index.ts';
import { wat } from '../../support/wat.ts';

const CALLS_AT_ONCE = 40;
const WAVES = 25;
const DEEP = 1_000_000;

export interface LongStacksReport {
  readonly calls: number;
  readonly addressBytes: number;
  readonly residentBytes: number;
  /** Answer of the deepest call. */
  readonly levels: number;
}

const wasmStackBytes = 4 << 20;
sizeLongStacks(messageStackBytes(wasmStackBytes));
const module = new WebAssembly.Module(
  wat(`(module (import "host" "wait" (func $wait))
    (func $down (param $n i32) (result i32)
      (if (result i32) (local.get $n)
        (then (i32.add (i32.const 1) (call $down (i32.sub (local.get $n) (i32.const 1)))))
        (else (call $wait) (i32.const 0))))
    (func (export "down") (param i32) (result i32) (call $down (local.get 0))))`),
);
const waiting: (() => void)[] = [];
const wait = new WebAssembly.Suspending(() => new Promise<void>((resolve) => waiting.push(resolve)));
const { exports } = new WebAssembly.Instance(module, { host: { wait: wait as WebAssembly.ImportValue } });
const down = WebAssembly.promising(exports['down'] as (levels: number) => number);

function status(): { readonly addressBytes: number; readonly residentBytes: number } {
  const text = readFileSync('/proc/self/status', 'utf8');
  const bytes = (name: string): number => 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1]);
  return { addressBytes: bytes('VmSize'), residentBytes: bytes('VmRSS') };
}

async function atOnce(calls: number, levels: number): Promise<number[]> {
  const answers = Array.from({ length: calls }, () => down(levels));
  for (const resume of waiting.splice(0)) resume();
  return Promise.all(answers);
}

await atOnce(CALLS_AT_ONCE, 10);
const before = status();
for (let wave = 0; wave < WAVES; wave++) await atOnce(CALLS_AT_ONCE, 10);
const [levels = 0] = await atOnce(1, DEEP);
const after = status();
const report: LongStacksReport = {
  calls: CALLS_AT_ONCE * WAVES,
  addressBytes: after.addressBytes - before.addressBytes,
  residentBytes: after.residentBytes - before.residentBytes,
  levels,
};
console.log(JSON.stringify(report));
