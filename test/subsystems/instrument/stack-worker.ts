/**
 * Runs each shape into its stack limit, first as V8 compiles it at once and then optimised; answers with the number of
 * frames.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { Instance } from '../../../subsystems/execution/engine/instance.ts';
import { prepare } from '../../support/bare-canister.ts';
import { wat } from '../../support/wat.ts';

export interface StackJob {
  readonly stackBytes: number;
  /** Texts of modules by name. */
  readonly shapes: Readonly<Record<string, string>>;
}
export interface StackResult {
  readonly shape: string;
  readonly kinds: readonly (string | undefined)[];
  readonly frames: readonly number[];
  /** True if the budget stopped the run, and not V8. */
  readonly isOurs: readonly boolean[];
}

const { stackBytes, shapes } = workerData as StackJob;
const control = new ControlMemory({ stackBytes, journalBytesMax: 1 << 20 });
const results: StackResult[] = [];
for (const [shape, text] of Object.entries(shapes)) {
  const instance = Instance.create(prepare(wat(text)), {}, control);
  const message = (method: string): { kind: string | undefined; frames: number; isOurs: boolean } => {
    instance.begin(1e12);
    const fault = instance.run(instance.entry(`canister_update ${method}`) ?? -1);
    const frames = new DataView(instance.saveGlobals().buffer).getInt32(0, true);
    const isOurs = control.stop === 2;
    instance.rollback();
    return { kind: fault?.kind, frames, isOurs };
  };
  const cold = message('go');
  for (let k = 0; k < 2000; k++) message('warm');
  const warm = message('go');
  results.push({
    shape,
    kinds: [cold.kind, warm.kind],
    frames: [cold.frames, warm.frames],
    isOurs: [cold.isOurs, warm.isOurs],
  });
}
parentPort?.postMessage(results);
